#!/usr/bin/env python3
"""libdeq on a GPU beside torchdeq and an explicit network of the paper, in one run on the same machine.

    python3 benchmarks/compare_gpu.py [--deq build/release/bin/deq] [--batch 96] [--out results.json]

Needs a GPU and a Python with torch and torchdeq. All see batches of 32×32 images; a training step is zero_grad, forward,
loss, backward and Adam. The DEQs have the same sizes (11.1M parameters), 6 evaluations for inference, 7 + 8 in
a training step, Broyden, and tolerances that are never met.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
from torch.nn.functional import cross_entropy

from explicit_networks import resnet101
from torchdeq_mdeq import LARGE, TorchdeqMdeq

DEQ = pathlib.Path(__file__).resolve().parent.parent / "build/release/bin/deq"
WARM_UPS, REPEATS = 4, 10


def libdeq(program, precision, batch):
    with tempfile.TemporaryDirectory() as folder:
        answer = pathlib.Path(folder) / "answer.json"
        subprocess.run([program, "bench", "mdeq", "--device", "cuda", "--precision", precision, "--batch", str(batch),
                        "--json", answer], check=True, stdout=subprocess.DEVNULL)
        numbers = json.loads(answer.read_text())
    return {"inference": numbers["inference_ms"], "step": numbers["step_ms"], "step_mib": numbers["step_mib"],
            "penalised": numbers["step_with_term_ms"], "all": numbers}


def median_ms(work):
    for _ in range(WARM_UPS):
        work()
    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def measure(make, forward, batch, autocast=False):
    """Times of a torch model; `make(evaluations, penalty)` gives one for inference (penalty None) or training."""
    order = torch.channels_last if autocast else torch.contiguous_format
    images = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=order)
    labels = torch.randint(10, (batch,), device="cuda")

    def infer(model):
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            forward(model, images)

    def step(model, optimiser):
        optimiser.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            logits, penalty = forward(model, images)
            loss = cross_entropy(logits.float(), labels) + penalty
        loss.backward()
        optimiser.step()

    def step_ms(model):
        optimiser = torch.optim.Adam(model.parameters(), lr=0.0, fused=True)
        torch.cuda.reset_peak_memory_stats()
        return median_ms(lambda: step(model, optimiser)), torch.cuda.max_memory_allocated() / 2**20

    model = make(None)
    result = {"inference": median_ms(lambda: infer(model.eval()))}
    result["step"], result["step_mib"] = step_ms(make(False).train())
    penalised = make(True)
    if penalised is not None:
        result["penalised"], _ = step_ms(penalised.train())
    return result


def torchdeq_mdeq(penalty):
    forward, adjoint = (6, 1) if penalty is None else (7, 8)
    return TorchdeqMdeq("broyden", forward, max(adjoint, 2), bool(penalty), LARGE).cuda()


def explicit(compiled):
    def make(penalty):
        if penalty:
            return None
        model = resnet101().cuda()
        if not compiled:
            return model
        return torch.compile(model.to(memory_format=torch.channels_last), mode="reduce-overhead")
    return make


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--deq", type=pathlib.Path, default=DEQ)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out, which takes a minute")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True

    rows = {}

    def add(name, result):
        rows[name] = result
        cells = [f"{result[key]:9.2f}" if key in result else " " * 9 for key in ("inference", "step", "penalised")]
        print(f"{name:42}" + " ms".join(cells) + f" ms {result['step_mib']:7.0f} MiB", flush=True)

    print(f"{'batch ' + str(arguments.batch):42}inference        step   penalised        step")
    for precision in ("bfloat16", "tf32"):
        add(f"libdeq, {precision}", libdeq(arguments.deq, precision, arguments.batch))
    add("torchdeq, tf32", measure(torchdeq_mdeq, lambda model, images: model(images), arguments.batch))
    plain = lambda model, images: (model(images), 0.0)  # noqa: E731
    add("ResNet-101, tf32", measure(explicit(False), plain, arguments.batch))
    if not arguments.no_compile:
        add("ResNet-101, bfloat16, compiled", measure(explicit(True), plain, arguments.batch, autocast=True))
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

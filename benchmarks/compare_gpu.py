#!/usr/bin/env python3
"""libdeq on a GPU beside torchdeq and an explicit network of the paper, in one run on the same machine.

    python3 benchmarks/compare_gpu.py mdeq|transformer [--deq build/release/bin/deq] [--out results.json]

Needs a GPU and a Python with torch and torchdeq. A training step is zero_grad, forward, loss, backward and Adam. The
DEQs of both sides have the same sizes, solve with Broyden, and have tolerances that are never met.

mdeq: 96 images of 32×32, 11.1M parameters, 6 evaluations for inference, 7 + 8 in a training step; ResNet-101.
transformer: 15 streams of 150 words with a memory of 150, d_model 700, d_inner 48000, 12 evaluations for inference,
12 + 12 in a training step, without dropout on torchdeq's side; Transformer-XL of 18 layers.
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

from peers.explicit_networks import resnet101
from peers.torchdeq_mdeq import LARGE, TorchdeqMdeq
from peers.torchdeq_transformer import PUBLISHED, TorchdeqTransformer
from peers.transformer_layers import WORDS
from peers.transformer_xl import PUBLISHED as EXPLICIT
from peers.transformer_xl import TransformerXl

DEQ = pathlib.Path(__file__).resolve().parent.parent / "build/release/bin/deq"
WARM_UPS, REPEATS = 4, 10
IMAGES, STREAMS, LENGTH = 96, 15, 150


def libdeq(program, subject, precision):
    with tempfile.TemporaryDirectory() as folder:
        answer = pathlib.Path(folder) / "answer.json"
        subprocess.run([program, "bench", subject, "--device", "cuda", "--precision", precision, "--json", answer],
                       check=True, stdout=subprocess.DEVNULL)
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


def measure(make, loss_of, autocast=False):
    """Times of a torch model; `make(None)` gives one for inference, `make(penalised)` for training, or None."""
    def infer(model):
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss_of(model)

    def step(model, optimiser):
        optimiser.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = loss_of(model)
        loss.backward()
        optimiser.step()

    def step_ms(model):
        optimiser = torch.optim.Adam(model.parameters(), lr=0.0, fused=True)
        torch.cuda.reset_peak_memory_stats()
        return median_ms(lambda: step(model, optimiser)), torch.cuda.max_memory_allocated() / 2**20

    model = make(None).eval()
    result = {"inference": median_ms(lambda: infer(model))}
    del model
    result["step"], result["step_mib"] = step_ms(make(False).train())
    penalised = make(True)
    if penalised is not None:
        result["penalised"], _ = step_ms(penalised.train())
    return result


def compiled(make):
    def compile_it(penalty):
        model = make(penalty)
        return model and torch.compile(model.to(memory_format=torch.channels_last), mode="reduce-overhead")
    return compile_it


class Vision:
    explicit = "ResNet-101"

    def __init__(self):
        self.labels = torch.randint(10, (IMAGES,), device="cuda")
        self.images = torch.randn(IMAGES, 3, 32, 32, device="cuda")

    def make_deq(self, penalty):
        forward, adjoint = (6, 2) if penalty is None else (7, 8)
        return TorchdeqMdeq("broyden", forward, adjoint, bool(penalty), LARGE).cuda()

    def deq_loss(self, model):
        logits, penalty = model(self.images)
        return cross_entropy(logits.float(), self.labels) + penalty

    def make_explicit(self, penalty):
        return None if penalty else resnet101().cuda()

    def explicit_loss(self, model):
        return cross_entropy(model(self.images).float(), self.labels)


class Language:
    explicit = "Transformer-XL"

    def __init__(self):
        # As a language's: every order of magnitude of ranks is as frequent as the next.
        words = (WORDS ** torch.rand(STREAMS, LENGTH + 1, device="cuda")).long() - 1
        self.tokens, self.targets = words[:, :-1].contiguous(), words[:, 1:].contiguous()
        self.past = torch.randn(STREAMS, LENGTH, PUBLISHED.d_model, device="cuda")
        self.past_injection = torch.randn(STREAMS, LENGTH, 3 * PUBLISHED.attended, device="cuda")
        self.explicit_past = list(torch.randn(18, STREAMS, LENGTH, EXPLICIT.d_model, device="cuda"))

    def make_deq(self, penalty):
        return TorchdeqTransformer("broyden", 12, 12 if penalty is not None else 2, bool(penalty), PUBLISHED).cuda()

    def deq_loss(self, model):
        nll, _, penalty = model(self.tokens, self.targets, self.past, self.past_injection)
        return nll.float().mean() + penalty

    def make_explicit(self, penalty):
        return None if penalty else TransformerXl().cuda()

    def explicit_loss(self, model):
        return model(self.tokens, self.targets, self.explicit_past)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("subject", choices=("mdeq", "transformer"))
    parser.add_argument("--deq", type=pathlib.Path, default=DEQ)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out, which takes a minute")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True

    rows = {}

    def add(name, result):
        """Prints the times, and how many times those of libdeq in bfloat16, which comes first, they are."""
        rows[name] = result
        ours = next(iter(rows.values()))
        cells = [f"{result[key]:9.2f} ms {result[key] / ours[key]:6.2f}" if key in result else " " * 19
                 for key in ("inference", "step", "penalised")]
        print(f"{name:34}" + "".join(cells) + f"{result['step_mib']:9.0f} MiB", flush=True)

    print(f"{arguments.subject:34}" + "".join(f"{what:>12}  ratio" for what in ("inference", "step", "penalised"))
          + "         step")
    for precision in ("bfloat16", "tf32"):
        add(f"libdeq, {precision}", libdeq(arguments.deq, arguments.subject, precision))
    peer = Vision() if arguments.subject == "mdeq" else Language()
    add("torchdeq, tf32", measure(peer.make_deq, peer.deq_loss))
    add(f"{peer.explicit}, tf32", measure(peer.make_explicit, peer.explicit_loss))
    if arguments.subject == "transformer":
        add("torchdeq, bfloat16", measure(peer.make_deq, peer.deq_loss, autocast=True))
        add(f"{peer.explicit}, bfloat16", measure(peer.make_explicit, peer.explicit_loss, autocast=True))
    elif not arguments.no_compile:
        peer.images = peer.images.to(memory_format=torch.channels_last)
        add(f"{peer.explicit}, bfloat16, compiled",
            measure(compiled(peer.make_explicit), peer.explicit_loss, autocast=True))
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

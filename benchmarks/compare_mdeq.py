#!/usr/bin/env python3
"""libdeq's tiny MDEQ for CIFAR-10 against the same model written with torchdeq, in one run.

    python3 benchmarks/compare_mdeq.py [--batch 32] [--repeats 5] [--out results.json]

Needs a Python with torch, numpy, safetensors and torchdeq, and a release build (make build). Both sides
get the same weights and images, float32, the same threads, and the same numbers of evaluations with a
tolerance that is never met; dropout is off. First it is asserted that both are the same function, in one
step from a random state: f, logits and gradients. Then rounds alternate, each in a process of its own, and medians are compared:

1. inference, 6 evaluations;
2. a training step (forward, loss, backward), 7 evaluations forward and 8 in the adjoint solve, with and
   without the Jacobian term;
3. peak memory of a training step for 4, 8, 16 and 32 evaluations forward, beyond what was there before.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy

from torchdeq_mdeq import TINY, TorchdeqMdeq

BINARY = pathlib.Path(__file__).resolve().parent.parent / "build/release/bin/deq_mdeq_benchmark"


def work(mode, solver, forward, adjoint=8, penalty=0, repeats=3):
    return [mode, solver, str(forward), str(adjoint), str(penalty), str(repeats)]


def ours(binary, file, words):
    """What libdeq's program measures: milliseconds of each repeat, MiB."""
    output = subprocess.run([binary, file, *words], check=True, capture_output=True, text=True).stdout
    return json.loads(output) if output else None


def theirs(file, words):
    """The same by this script, in a process of its own."""
    command = [sys.executable, __file__, "--peer", file, *words]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def load_peer(tensors, solver, forward, adjoint, penalty):
    model = TorchdeqMdeq(solver, int(forward), int(adjoint), penalty not in (0, "0"))
    model.load_state_dict({name.removeprefix("param."): tensor for name, tensor in tensors.items()
                           if name.startswith("param.")})
    return model


def train_step(model, tensors):
    logits, jacobian = model(tensors["images"])
    loss = cross_entropy(logits, tensors["labels"]) + jacobian
    model.zero_grad()
    loss.backward()


def memory_mib(what):
    """VmRSS or VmHWM, the resident memory now or at its peak."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {what} in /proc/self/status")


def run_peer(file, mode, solver, forward, adjoint, penalty, repeats):
    """The peer's side of one round, printed as JSON."""
    tensors = load_file(file)
    model = load_peer(tensors, solver, forward, adjoint, penalty).train(mode == "train")
    # What a first step loads and keeps, whatever the batch, is not a step's memory.
    train_step(model, {name: tensors[name][:2] for name in ("images", "labels")})
    before, times = memory_mib("VmRSS"), []
    for _ in range(2 + int(repeats)):
        begin = time.perf_counter()
        if mode == "train":
            train_step(model, tensors)
        else:
            with torch.no_grad():
                model(tensors["images"])
        times.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({"ms": times[2:], "mib": memory_mib("VmHWM") - before,
                      "threads": torch.get_num_threads()}))


def write_problem(file, batch):
    torch.manual_seed(0)
    tensors = {"images": torch.randn(batch, 3, 32, 32), "labels": torch.arange(batch) % 10}
    for i, channels in enumerate(TINY.channels):
        tensors[f"z.{i}"] = torch.randn(batch, channels, 32 >> i, 32 >> i)
    model = TorchdeqMdeq("broyden", 6, 8, False)
    for name, tensor in model.state_dict().items():
        moved = tensor + 0.1 * torch.rand_like(tensor) if tensor.is_floating_point() else tensor
        tensors["param." + name] = moved.contiguous()
    save_file(tensors, file)


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def assert_same_function(binary, file):
    """f at a random state, the logits that follow from it, and the gradients of all parameters."""
    ours(binary, file, work("check", "anderson", 6))
    answer, tensors = load_file(file + ".out"), load_file(file)
    model = load_peer(tensors, "anderson", 6, 8, 0).eval()
    f = model.fullstage(tensors["z.0"], tensors["z.1"], model.inject(tensors["images"]))
    logits = model.classify(*f)
    cross_entropy(logits, tensors["labels"]).backward()
    errors = {f"f.{i}": relative(answer[f"f.{i}"], part) for i, part in enumerate(f)}
    errors["logits"] = relative(answer["logits"], logits)
    gradients = [(answer["grad." + name], parameter.grad) for name, parameter in model.named_parameters()]
    errors["gradients"] = relative(*(torch.cat([g.flatten() for g in side]) for side in zip(*gradients)))
    print("relative differences:", ", ".join(f"{k} {v:.1e}" for k, v in errors.items()), flush=True)
    for name, error in errors.items():
        assert error < 1e-5, f"not the same function: {name} differs by {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each comparison")
    parser.add_argument("--solvers", nargs="+", default=["anderson", "broyden"])
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    results = {"torch": torch.__version__, "batch": arguments.batch, "rows": [], "memory": []}

    with tempfile.TemporaryDirectory() as folder:
        file = str(pathlib.Path(folder) / "mdeq.safetensors")
        write_problem(file, arguments.batch)
        assert_same_function(arguments.binary, file)

        def compare(name, words):
            rounds = [(ours(arguments.binary, file, words), theirs(file, words))
                      for _ in range(arguments.repeats)]
            assert len({side["threads"] for pair in rounds for side in pair}) == 1, "unequal threads"
            mine, peer = (statistics.median(t for pair in rounds for t in pair[side]["ms"])
                          for side in (0, 1))
            results["rows"].append({"name": name, "libdeq": mine, "torchdeq": peer,
                                    "ratio": peer / mine, "rounds": rounds})
            print(f"{name:38} libdeq {mine:8.1f} ms   torchdeq {peer:8.1f} ms   ratio {peer / mine:5.2f}",
                  flush=True)

        for solver in arguments.solvers:
            compare(f"inference, {solver}", work("infer", solver, 6, repeats=5))
            compare(f"training step, {solver}", work("train", solver, 7))
            compare(f"training step, {solver}, penalty", work("train", solver, 7, penalty=1))
        for solver in arguments.solvers if not arguments.no_memory else []:
            for forward in (4, 8, 16, 32):
                words = work("train", solver, forward, repeats=1)
                mine, peer = ours(arguments.binary, file, words)["mib"], theirs(file, words)["mib"]
                results["memory"].append({"solver": solver, "forward": forward, "libdeq": mine,
                                          "torchdeq": peer})
                print(f"{solver}, {forward:2} evaluations: libdeq {mine:7.0f} MiB   "
                      f"torchdeq {peer:7.0f} MiB", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        run_peer(*sys.argv[2:])
    else:
        main()

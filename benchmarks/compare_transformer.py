#!/usr/bin/env python3
"""libdeq's DEQ-Transformer language model against the same model written with torchdeq, in one run.

    python3 benchmarks/compare_transformer.py [--streams 8] [--length 64] [--repeats 5] [--out results.json]

Needs a Python with torch, numpy, safetensors and torchdeq, and a release build (make build). d_model is 128,
d_inner 2048, the vocabulary WikiText-103's 267,735 words, drawn by Zipf's law; each stream comes with a memory as long
as its text. Both sides get the same weights and words, float32, the same threads, and the same numbers of evaluations
with a tolerance that is never met; dropout is off. First it is asserted that both are the same function, in one step
from a random state: f, the cost of every word, and gradients. Then rounds alternate, each in a process of its own, and
medians are compared:

1. inference (the cost of every word), 12 evaluations;
2. a training step (forward, loss, backward), 12 evaluations forward and 12 in the adjoint solve, with and without the
   Jacobian term;
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

from compare_mdeq import memory_mib, ours, relative, work
from torchdeq_transformer import D_HEAD, D_MODEL, HEADS, WORDS, TorchdeqTransformer

BINARY = pathlib.Path(__file__).resolve().parent.parent / "build/release/bin/deq_transformer_benchmark"
TEXT = ("tokens", "targets", "memory.z", "memory.u")
CONVOLUTIONS = ("qkv_net", "r_net", "o_net", "inject_conv")  # libdeq has their weights as published, [out, in, 1]


def theirs(file, words):
    """What the peer measures, by this script in a process of its own."""
    command = [sys.executable, __file__, "--peer", file, *words]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def is_convolution(name):
    return "weight" in name and name.split(".")[-2] in CONVOLUTIONS


def load_peer(tensors, solver, forward, adjoint, penalty):
    model = TorchdeqTransformer(solver, int(forward), int(adjoint), penalty not in (0, "0"))
    state = {name.removeprefix("param."): tensor for name, tensor in tensors.items() if name.startswith("param.")}
    state = {name: tensor.squeeze(-1) if is_convolution(name) else tensor for name, tensor in state.items()}
    tied = model.load_state_dict(state, strict=False).missing_keys
    assert all(name.startswith("crit.out_") for name in tied), tied
    return model


def train_step(model, text):
    nll, _, jacobian = model(*text)
    model.zero_grad()
    (nll.mean() + jacobian).backward()


def run_peer(file, mode, solver, forward, adjoint, penalty, repeats):
    """The peer's side of one round, printed as JSON."""
    tensors = load_file(file)
    model = load_peer(tensors, solver, forward, adjoint, penalty).train(mode == "train")
    text = [tensors[name] for name in TEXT]
    # What a first step loads and keeps, whatever the batch, is not a step's memory.
    train_step(model, [part[:1] for part in text])
    before, times = memory_mib("VmRSS"), []
    for _ in range(2 + int(repeats)):
        begin = time.perf_counter()
        if mode == "train":
            train_step(model, text)
        else:
            with torch.no_grad():
                model(*text)
        times.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({"ms": times[2:], "mib": memory_mib("VmHWM") - before, "threads": torch.get_num_threads()}))


def write_problem(file, streams, length):
    torch.manual_seed(0)
    frequencies = 1 / (torch.arange(WORDS, dtype=torch.float64) + 2.7)
    words = torch.multinomial(frequencies, streams * (length + 1), replacement=True).view(streams, length + 1)
    tensors = {"tokens": words[:, :-1].contiguous(), "targets": words[:, 1:].contiguous(),
               "memory.z": torch.randn(streams, length, D_MODEL),
               "memory.u": torch.randn(streams, length, 3 * HEADS * D_HEAD), "z": torch.randn(streams, length, D_MODEL)}
    model = TorchdeqTransformer("broyden", 12, 12, False)
    with torch.no_grad():
        for table in model.word_emb.emb_layers:
            table.weight.mul_(0.02)
    # Parameters, each once, and buffers.
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not name.endswith("inv_freq") and tensor.dim() < 2:
            tensor = tensor + 0.02 * torch.rand_like(tensor)
        tensors["param." + name] = (tensor.unsqueeze(-1) if is_convolution(name) else tensor).detach().contiguous()
    save_file(tensors, file)


def assert_same_function(binary, file):
    """f at a random state, the costs that follow from it, and the gradients of all parameters."""
    ours(binary, file, work("check", "anderson", 12))
    answer, tensors = load_file(file + ".out"), load_file(file)
    model = load_peer(tensors, "anderson", 12, 12, 0).eval()
    f = model.func(tensors["z"], *model.given(tensors["tokens"], tensors["memory.z"], tensors["memory.u"]))
    nll = model.crit(f, tensors["targets"])
    nll.mean().backward()
    errors = {"f": relative(answer["f"], f), "nll": relative(answer["nll"], nll)}
    gradients = {name: (answer["grad." + name].view_as(parameter), parameter.grad)
                 for name, parameter in model.named_parameters()}
    errors["gradients"] = relative(*(torch.cat([g.flatten() for g in side]) for side in zip(*gradients.values())))
    worst, (mine, peer) = max(gradients.items(), key=lambda item: relative(*item[1]))
    print("relative differences:", ", ".join(f"{k} {v:.1e}" for k, v in errors.items()),
          f"(most {relative(mine, peer):.1e}, of {worst})", flush=True)
    assert relative(mine, peer) < 1e-4, f"not the same function: the gradient of {worst} differs"
    for name, error in errors.items():
        assert error < 1e-5, f"not the same function: {name} differs by {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--length", type=int, default=64, help="words of a stream, and of its memory")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each comparison")
    parser.add_argument("--solvers", nargs="+", default=["anderson", "broyden"])
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--binary", type=pathlib.Path, default=BINARY)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    results = {"torch": torch.__version__, "streams": arguments.streams, "length": arguments.length, "rows": [],
               "memory": []}

    with tempfile.TemporaryDirectory() as folder:
        file = str(pathlib.Path(folder) / "transformer.safetensors")
        write_problem(file, arguments.streams, arguments.length)
        assert_same_function(arguments.binary, file)

        def compare(name, words):
            rounds = [(ours(arguments.binary, file, words), theirs(file, words)) for _ in range(arguments.repeats)]
            assert len({side["threads"] for pair in rounds for side in pair}) == 1, "unequal threads"
            mine, peer = (statistics.median(t for pair in rounds for t in pair[side]["ms"]) for side in (0, 1))
            results["rows"].append({"name": name, "libdeq": mine, "torchdeq": peer, "ratio": peer / mine,
                                    "rounds": rounds})
            print(f"{name:38} libdeq {mine:8.1f} ms   torchdeq {peer:8.1f} ms   ratio {peer / mine:5.2f}", flush=True)

        for solver in arguments.solvers:
            compare(f"inference, {solver}", work("infer", solver, 12, repeats=5))
            compare(f"training step, {solver}", work("train", solver, 12, 12))
            compare(f"training step, {solver}, penalty", work("train", solver, 12, 12, penalty=1))
        for solver in arguments.solvers if not arguments.no_memory else []:
            for forward in (4, 8, 16, 32):
                words = work("train", solver, forward, 12, repeats=1)
                mine, peer = ours(arguments.binary, file, words)["mib"], theirs(file, words)["mib"]
                results["memory"].append({"solver": solver, "forward": forward, "libdeq": mine, "torchdeq": peer})
                print(f"{solver}, {forward:2} evaluations: libdeq {mine:7.0f} MiB   torchdeq {peer:7.0f} MiB", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        run_peer(*sys.argv[2:])
    else:
        main()

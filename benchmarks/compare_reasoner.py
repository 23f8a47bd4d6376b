#!/usr/bin/env python3
"""`deq bench reasoner` beside the same network in plain PyTorch, evaluated and compiled, in one run on one machine.

    python3 benchmarks/compare_reasoner.py [--deq build/release/bin/deq] [--out results.json]
    python3 benchmarks/compare_reasoner.py --device cpu --batch 4 --cells 16 --width 32     # to try it

Needs a Python with torch. A training segment is zero_grad, three recursions of which the last is backpropagated
through, loss, backward and Adam; an inference segment is three recursions. PyTorch's states and activations are in
bfloat16, its weights in float32 under autocast, as the authors have them.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from peers.plain_reasoner import VOCABULARY, PlainReasoner

DEQ = pathlib.Path(__file__).resolve().parent.parent / "build/release/bin/deq"
WARM_UPS = 4


def libdeq(arguments):
    with tempfile.TemporaryDirectory() as folder:
        answer = pathlib.Path(folder) / "answer.json"
        sizes = [f"--{name}={getattr(arguments, name)}" for name in ("device", "batch", "cells", "width", "repeats")]
        subprocess.run([arguments.deq, "bench", "reasoner", "--precision", "bfloat16", *sizes, "--json", answer],
                       check=True, stdout=subprocess.DEVNULL)
        numbers = json.loads(answer.read_text())
    return {"inference": numbers["inference_ms"], "step": numbers["step_ms"],
            "inference_mib": numbers["inference_mib"], "step_mib": numbers["step_mib"], "all": numbers}


def stablemax_loss(logits, answers):
    s = torch.where(logits >= 0, logits + 1, 1 / (1 - logits.clamp(max=0)))
    p = s.log() - s.sum(-1, keepdim=True).log()
    return -p.gather(-1, answers.unsqueeze(-1)).mean()


class Peer:
    def __init__(self, arguments):
        self.device, self.repeats = arguments.device, arguments.repeats
        self.sizes = {"cells": arguments.cells, "width": arguments.width}
        shape = (arguments.batch, arguments.cells)
        self.questions, self.answers = (torch.randint(VOCABULARY, shape, device=self.device) for _ in range(2))
        self.start = [torch.randn(*shape, arguments.width, device=self.device).bfloat16() for _ in range(2)]

    def synchronise(self):
        if self.device != "cpu":
            torch.cuda.synchronize()

    def median_ms(self, work):
        """And the most memory in MiB, of a GPU."""
        for _ in range(WARM_UPS):
            work()
        times = []
        if self.device != "cpu":
            torch.cuda.reset_peak_memory_stats()
        for _ in range(self.repeats):
            self.synchronise()
            begin = time.perf_counter()
            work()
            self.synchronise()
            times.append(1e3 * (time.perf_counter() - begin))
        most = 0 if self.device == "cpu" else torch.cuda.max_memory_allocated() / 2**20
        return statistics.median(times), most

    def measure(self, compiled):
        model = PlainReasoner(**self.sizes).to(self.device)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.0, fused=self.device != "cpu")
        if compiled:
            # Three recursions in one graph take minutes to compile; one update is as well fused.
            model.update = torch.compile(model.update)

        def forward():
            with torch.autocast(self.device.split(":")[0], torch.bfloat16):
                return model(self.questions, *self.start)

        def infer():
            with torch.no_grad():
                forward()

        def step():
            optimiser.zero_grad()
            logits, settled = forward()
            right = torch.zeros_like(settled)
            (stablemax_loss(logits, self.answers) + 0.5 * binary_cross_entropy_with_logits(settled, right)).backward()
            optimiser.step()

        result = {}
        model.eval()
        result["inference"], result["inference_mib"] = self.median_ms(infer)
        model.train()
        result["step"], result["step_mib"] = self.median_ms(step)
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--deq", type=pathlib.Path, default=DEQ)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=768)
    parser.add_argument("--cells", type=int, default=81)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out, which takes a minute")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()

    rows = {}

    def add(name, result):
        """Prints the times, and how many times libdeq's, which come first, they are."""
        rows[name] = result
        ours = next(iter(rows.values()))
        print(f"{name:28}" + "".join(f"{result[key]:10.2f} ms {result[key] / ours[key]:6.2f}{result[key + '_mib']:9.0f} MiB"
                                     for key in ("inference", "step")), flush=True)

    print(f"{'bfloat16':28}" + "".join(f"{what:>13}  ratio         peak" for what in ("inference", "training")))
    add("libdeq", libdeq(arguments))
    peer = Peer(arguments)
    add("PyTorch", peer.measure(compiled=False))
    if not arguments.no_compile:
        add("PyTorch, compiled", peer.measure(compiled=True))
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

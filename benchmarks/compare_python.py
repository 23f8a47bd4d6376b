#!/usr/bin/env python3
"""The Python package against torchdeq, with the same f in Python, in one run.

    PYTHONPATH=build/release/python python3 benchmarks/compare_python.py [--repeats 7] [--device cpu] [--out FILE]

Needs a Python with torch, torchdeq and deq (an installed wheel, or a build with DEQ_BUILD_PYTHON=ON).

f(z; x) = tanh(W z + x) on z [B, D], float32. Both sides solve with a tolerance that is never met, so both evaluate
f equally often: 20 times forward and, in a training step, take 20 products with the Jacobian. A solver's overhead is
the time of a solve less that of its evaluations, which is measured beside it by calling f as often. Rounds of both
alternate, so that a change in the machine's mood meets both; medians are compared.
"""

import argparse
import json
import pathlib
import statistics
import time

import torch
import torchdeq

import deq

EVALUATIONS = 20
SOLVERS = {
    "Picard": (deq.Picard, "fixed_point_iter"),
    "Anderson": (deq.Anderson, "anderson"),
    "Broyden": (deq.Broyden, "broyden"),
}
SHAPES = [(16, 32), (64, 512), (64, 4096)]


class Subject:
    """One f, and both libraries around it."""

    def __init__(self, solver, batch, dim, device):
        torch.manual_seed(0)
        ours, theirs = SOLVERS[solver]
        self.device = device
        # An elementwise recurrence where a matrix would cost far more than any solver.
        self.w = torch.nn.Parameter(0.5 * torch.randn(dim, device=device))
        self.x = torch.randn(batch, dim, device=device)
        self.z0 = torch.zeros_like(self.x)
        self.calls = 0
        never = dict(rtol=0.0, max_evals=EVALUATIONS, stagnation_window=0)
        self.layer = deq.Equilibrium(
            self.f, [self.w], forward=ours(**never), gradient=deq.Implicit(solver=ours(**never))
        )
        # torchdeq's Broyden evaluates f once before it counts.
        budget = EVALUATIONS - (theirs == "broyden")
        self.peer = torchdeq.get_deq(
            f_solver=theirs, b_solver=theirs, f_max_iter=budget, b_max_iter=budget, f_tol=0.0, b_tol=0.0, ift=True
        )

    def f(self, z, x):
        self.calls += 1
        return torch.tanh(z * self.w + x)

    def ours_forward(self):
        with torch.no_grad():
            self.layer(self.x)

    def theirs_forward(self):
        with torch.no_grad():
            self.peer(lambda z: self.f(z, self.x), self.z0)

    def evaluations(self):
        with torch.no_grad():
            z = self.z0
            for _ in range(EVALUATIONS):
                z = self.f(z, self.x)

    def ours_step(self):
        self.layer(self.x).z.sum().backward()

    def theirs_step(self):
        self.peer(lambda z: self.f(z, self.x), self.z0)[0][-1].sum().backward()

    def seconds(self, work, times):
        begin = time.perf_counter()
        for _ in range(times):
            work()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / times

    def calls_of(self, work):
        self.calls = 0
        work()
        return self.calls


def medians(subject, works, repeats):
    """Each work's median, with rounds of all works in turn."""
    for work in works:
        work()
    times = max(1, int(0.1 / subject.seconds(works[0], 1)))
    rounds = [[subject.seconds(work, times) for work in works] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*rounds)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()

    rows = []
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {EVALUATIONS} evaluations; milliseconds")
    print(f"{'':24}{'overhead of a solve':>28}{'':7}{'training step':>28}")
    print(f"{'':24}{'deq':>10}{'torchdeq':>10}{'ratio':>8}{'':7}{'deq':>10}{'torchdeq':>10}{'ratio':>8}")
    for solver in SOLVERS:
        for batch, dim in SHAPES:
            subject = Subject(solver, batch, dim, arguments.device)
            for ours, theirs in [
                (subject.ours_forward, subject.theirs_forward),
                (subject.ours_step, subject.theirs_step),
            ]:
                calls = subject.calls_of(ours), subject.calls_of(theirs)
                assert abs(calls[0] - calls[1]) <= 1, f"{solver}: {calls} evaluations"
            works = [subject.ours_forward, subject.theirs_forward, subject.evaluations, subject.ours_step, subject.theirs_step]
            forward, peer_forward, evaluations, step, peer_step = medians(subject, works, arguments.repeats)
            overhead, peer_overhead = forward - evaluations, peer_forward - evaluations
            rows.append(
                dict(solver=solver, batch=batch, dim=dim, evaluations=evaluations, forward=forward,
                     torchdeq_forward=peer_forward, step=step, torchdeq_step=peer_step)
            )
            print(
                f"{f'{solver}, [{batch}, {dim}]':24}"
                f"{1e3 * overhead:10.3f}{1e3 * peer_overhead:10.3f}{peer_overhead / overhead:8.1f}{'':7}"
                f"{1e3 * step:10.3f}{1e3 * peer_step:10.3f}{peer_step / step:8.1f}",
                flush=True,
            )
    if arguments.out:
        arguments.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()

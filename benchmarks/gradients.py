#!/usr/bin/env python3
"""What each gradient of the package costs, and how far it trains a small model, in one run.

    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python python3 benchmarks/gradients.py [--seeds 3] [--steps 400]
    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python python3 benchmarks/gradients.py --memory

A student learns the equilibria of a teacher: both are z = tanh(W z + U x + b), read by a matrix, the teacher with a
spectral radius of 0.9 at zero and fixed random weights. The figure is the mean squared error on inputs that were not
trained on, over the targets' variance. Time is the processor's, of a training step, over that of the implicit gradient in the
same run; a step of each gradient is timed in turn.

With --memory: the peak of the resident memory of a training step over that before it, by process, for a layer whose
evaluation saves much more than its state.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

import torch

import deq

FORWARD = deq.Broyden(max_evals=8, rtol=1e-3)
GRADIENTS = {
    "implicit, 8 products": deq.Implicit(solver=deq.Broyden(max_evals=8, rtol=1e-3)),
    "implicit, 3 products": deq.Implicit(solver=deq.Broyden(max_evals=3, rtol=1e-3)),
    "shine": deq.Shine(),
    "shine, 3 products": deq.Shine(refinement=deq.Broyden(max_evals=3, rtol=1e-3)),
    "jacobian-free": deq.JacobianFree(),
    "unrolled, 8 steps": deq.Unrolled(steps=8),
    "reversible, 4 steps": deq.Reversible(steps=4),
    "reversible, 8 steps": deq.Reversible(steps=8),
}
WIDTH, INPUTS, OUTPUTS, BATCH = 32, 8, 4, 64


class Model(torch.nn.Module):
    def __init__(self, radius, **options):
        super().__init__()
        self.w = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        with torch.no_grad():
            self.w.weight *= radius / torch.linalg.eigvals(self.w.weight).abs().max()
        self.u = torch.nn.Linear(INPUTS, WIDTH)
        self.head = torch.nn.Linear(WIDTH, OUTPUTS)
        self.layer = deq.Equilibrium(
            lambda z, x: torch.tanh(self.w(z) + x), self.w.parameters(), forward=FORWARD, **options
        )

    def forward(self, x):
        eq = self.layer(self.u(x))
        return self.head(eq.z), eq


def teacher_of(seed):
    torch.manual_seed(1000 + seed)
    teacher = Model(0.9)
    exact = deq.EquilibriumPlan(deq.EquilibriumOptions(forward=deq.Broyden(max_evals=60, rtol=1e-6)))

    def targets(x):
        with torch.no_grad():
            return teacher.head(teacher.layer(teacher.u(x), plan=exact).z)

    return targets


class Training:
    """One student, a step at a time."""

    def __init__(self, gradient, seed, steps):
        self.targets = teacher_of(seed)
        torch.manual_seed(seed)
        self.model = Model(0.5, gradient=gradient)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, steps)
        self.inputs = torch.Generator().manual_seed(seed)
        self.seconds, self.products, self.fallbacks = [], 0, 0

    def step(self):
        x = torch.randn(BATCH, INPUTS, generator=self.inputs)
        target = self.targets(x)
        begin = time.process_time()
        answer, eq = self.model(x)
        self.optimiser.zero_grad()
        (answer - target).square().mean().backward()
        self.optimiser.step()
        self.seconds.append(time.process_time() - begin)
        self.schedule.step()
        self.products += eq.adjoint.evaluations
        self.fallbacks += eq.adjoint.fallbacks

    def error(self):
        x = torch.randn(2048, INPUTS, generator=torch.Generator().manual_seed(99))
        target = self.targets(x)
        with torch.no_grad():
            answer, _ = self.model(x)
        return ((answer - target).square().mean() / target.var()).item()


def train(seeds, steps):
    errors = {name: [] for name in GRADIENTS}
    ratios = {name: [] for name in GRADIENTS}
    for seed in range(seeds):
        runs = {name: Training(gradient, seed, steps) for name, gradient in GRADIENTS.items()}
        for _ in range(steps):
            for run in runs.values():
                run.step()
        first = statistics.median(next(iter(runs.values())).seconds)
        for name, run in runs.items():
            errors[name].append(run.error())
            ratios[name].append(statistics.median(run.seconds) / first)
    print("| gradient | error | time of a step | products or evaluations back, a step | fall-backs, a step |")
    print("|---|---|---|---|---|")
    for name, run in runs.items():
        error = ", ".join(f"{value:.4f}" for value in errors[name])
        print(
            f"| {name} | {error} | {statistics.median(ratios[name]):.2f} | {run.products / steps:.1f} "
            f"| {run.fallbacks / steps:.1f} of {BATCH} |"
        )


def measure_memory(kind, steps):
    """In a process of its own: the peak is the process's."""
    gradient = {"unrolled": deq.Unrolled, "reversible": deq.Reversible}[kind](steps=steps)
    wide = torch.nn.Sequential(torch.nn.Linear(256, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 256))
    layer = deq.Equilibrium(lambda z, x: torch.tanh(wide(z) + x), wide.parameters(), gradient=gradient)
    x = torch.randn(256, 256)
    layer(x[:1]).z.sum().backward()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    layer(x).z.sum().backward()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def memory():
    at_once = dict(os.environ, MALLOC_MMAP_THRESHOLD_="65536")  # what is freed goes back to the system at once
    print("| steps | unrolled, MiB | reversible, MiB |")
    print("|---|---|---|")
    for steps in (4, 8, 16):
        peaks = [
            float(subprocess.check_output([sys.executable, __file__, "--measure", kind, str(steps)], env=at_once))
            for kind in ("unrolled", "reversible")
        ]
        print(f"| {steps} | {peaks[0]:.0f} | {peaks[1]:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.measure:
        measure_memory(arguments.measure[0], int(arguments.measure[1]))
    elif arguments.memory:
        memory()
    else:
        train(arguments.seeds, arguments.steps)


if __name__ == "__main__":
    main()

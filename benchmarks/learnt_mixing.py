#!/usr/bin/env python3
"""What a learnt mixing buys on small trained layers: residuals and distances after few evaluations, in one run.

    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python python3 benchmarks/learnt_mixing.py [--seeds 3] [--steps 600]

The layers are the students of benchmarks/gradients.py after 400 steps; the mixing is then trained on inputs of the same
kind, with the layer frozen, for 6 evaluations, once for all budgets. The figures are means over 2048 other inputs of what
a solve from 0 returns: ‖f(z) − z‖ / ‖f(z)‖ and ‖z − z*‖ / ‖z*‖. Time is the processor's, of one solve of a batch of 64 with 6
evaluations, and over that of Anderson in the same run.
"""

import argparse
import math
import statistics
import time

import torch
from gradients import BATCH, INPUTS, Training

import deq

MEMORY, TRAINED_FOR, BUDGETS = 5, 6, (2, 3, 4, 6, 12)


def trained_layer(seed, steps=400):
    run = Training(deq.Implicit(solver=deq.Broyden(max_evals=8)), seed, steps)
    for _ in range(steps):
        run.step()
    return run.model.double().requires_grad_(False)


class Problems:
    """The layer's equations for new inputs, and their solutions."""

    def __init__(self, model, seed):
        self.model = model
        self.inputs = torch.Generator().manual_seed(seed)

    def draw(self, batch):
        x = self.model.u(torch.randn(batch, INPUTS, generator=self.inputs).double())

        def f(z):
            return torch.tanh(self.model.w(z) + x)

        z_star = deq.Solver(deq.Anderson(rtol=1e-10, max_evals=200)).solve(f, torch.zeros_like(x)).z
        return f, torch.zeros_like(x), z_star


def trained_mixing(problems, seed, steps):
    mixing = deq.LearntMixing(MEMORY, generator=torch.Generator().manual_seed(seed))
    solver = deq.Anderson(memory=MEMORY, mixing=mixing, max_evals=TRAINED_FOR)
    optimiser = torch.optim.Adam(mixing.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda k: (1 + math.cos(math.pi * k / steps)) / 2)
    for _ in range(steps):
        f, z0, z_star = problems.draw(BATCH)
        optimiser.zero_grad()
        deq.mixing_loss(f, z0, z_star, solver).backward()
        optimiser.step()
        schedule.step()
    return mixing


def relative(part, whole):
    return (part.norm(dim=1) / whole.norm(dim=1)).mean().item()


def measured(options, f, z0, z_star):
    z = deq.Solver(options).solve(f, z0).z
    return relative(f(z) - z, f(z)), relative(z - z_star, z_star)


def seconds(options, problem):
    f, z0, _ = problem
    solver = deq.Solver(options)
    times = []
    for _ in range(50):
        begin = time.process_time()
        solver.solve(f, z0)
        times.append(time.process_time() - begin)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    figures, times = {}, {}
    for seed in range(arguments.seeds):
        model = trained_layer(seed)
        mixing = trained_mixing(Problems(model, seed), seed, arguments.steps)
        new, timed = Problems(model, 1000 + seed).draw(2048), Problems(model, 2000 + seed).draw(BATCH)
        solvers = {
            "Anderson": deq.Anderson(memory=MEMORY, rtol=0),
            "Broyden": deq.Broyden(rtol=0),
            "learnt": deq.Anderson(memory=MEMORY, mixing=mixing, rtol=0),
        }
        for name, options in solvers.items():
            for budget in BUDGETS:
                figures.setdefault((name, budget), []).append(measured(options.replace(max_evals=budget), *new))
            times.setdefault(name, []).append(seconds(options.replace(max_evals=TRAINED_FOR), timed))
    for part, what in enumerate(("residual", "distance")):
        print(f"| {what} | " + " | ".join(f"{budget} evaluations" for budget in BUDGETS) + " | time |")
        print("|---" * (len(BUDGETS) + 2) + "|")
        for name in times:
            cells = [", ".join(f"{figure[part]:.4f}" for figure in figures[name, budget]) for budget in BUDGETS]
            ratio = statistics.median(own / plain for own, plain in zip(times[name], times["Anderson"]))
            spent = f"{ratio:.2f} ({1e3 * statistics.median(times[name]):.2f} ms)"
            print(f"| {name} | " + " | ".join(cells) + f" | {spent} |")
        print()


if __name__ == "__main__":
    main()

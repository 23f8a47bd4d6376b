#!/usr/bin/env python3
"""What a penalty on the loss's gradient by the picture buys, by an equilibrium that can be differentiated twice.

    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python python3 benchmarks/second_derivatives.py DIR [--steps 250] [--seeds 1 2 3]

DIR holds CIFAR-10 as train/<class>/*.jpg and test/<class>/*.jpg. A small convolutional equilibrium layer learns crops of
24 × 24, and the loss gets λ ‖∂(cross-entropy)/∂picture‖², the mean over the pictures, which are numbers from 0 to 1. One
line of JSON for each training: accuracies on 1,000 test pictures at the equilibrium, as they are, under normal noise and
under one step against the sign of the exact gradient; the mean norm of that gradient; the processor's time of a step over
that of the first setting (a step of each is taken in turn, medians), and the peak of the resident memory of one step over
that before it, in a process of its own. Then one line for each seed and for three of its models: how far the gradient of the
penalty by the weights is from finite differences, in float64, relative, along eight directions. Needs Pillow.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as nnf

import deq
import mdeq_in_python as data

CHANNELS, SIDE, BATCH = 16, 24, 32
FORWARD = deq.Broyden(max_evals=8, rtol=1e-3)
GRADIENTS = {
    "implicit": deq.Implicit(solver=FORWARD, twice=True),
    "implicit, once": deq.Implicit(solver=FORWARD),
    "unrolled": deq.Unrolled(steps=8),
}
# The gradient, λ, and the deviation of noise on the training pictures.
SETTINGS = {
    "implicit, no penalty": ("implicit, once", 0, 0),
    "implicit, 0.1": ("implicit", 0.1, 0),
    "implicit, 1": ("implicit", 1, 0),
    "unrolled, 0.1": ("unrolled", 0.1, 0),
    "unrolled, 1": ("unrolled", 1, 0),
    "implicit, noise 0.1": ("implicit, once", 0, 0.1),
}
CHECKED = ("implicit, no penalty", "implicit, 1", "unrolled, 1")
NOISES, ATTACKS = (0.1, 0.2), (1, 2, 4)  # deviations, and 255ths
TIGHT = deq.Broyden(max_evals=150, rtol=1e-11)


class Cell(torch.nn.Module):
    """f(z; x) = norm(x + W₂ s(norm(W₁ z))): smooth, since the penalty sees second derivatives."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Conv2d(CHANNELS, 2 * CHANNELS, 3, padding=1, bias=False)
        self.first_norm = torch.nn.GroupNorm(4, 2 * CHANNELS)
        self.outer = torch.nn.Conv2d(2 * CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.norm = torch.nn.GroupNorm(4, CHANNELS)

    def forward(self, z, x):
        return self.norm(x + self.outer(nnf.silu(self.first_norm(self.inner(z)))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        first = torch.nn.Conv2d(3, CHANNELS, 3, stride=2, padding=1, bias=False)
        self.stem = torch.nn.Sequential(first, torch.nn.GroupNorm(4, CHANNELS))
        self.cell = Cell()
        self.head = torch.nn.Linear(9 * CHANNELS, 10)
        self.layers = {name: self.layer(gradient=gradient) for name, gradient in GRADIENTS.items()}

    def layer(self, forward=FORWARD, **options):
        return deq.Equilibrium(self.cell, forward=forward, **options)

    def forward(self, pictures, layer):
        eq = layer(self.stem(data.scaled(pictures)))
        return self.head(nnf.adaptive_avg_pool2d(nnf.silu(eq.z), 3).flatten(1)), eq


def slope(model, layer, x, y, again=True):
    """The losses' gradient by the pictures, and the mean loss."""
    x = x.detach().requires_grad_()
    losses = nnf.cross_entropy(model(x, layer)[0], y, reduction="none")
    return torch.autograd.grad(losses.sum(), x, create_graph=again)[0], losses.mean()


def penalty(model, layer, x, y, again=True):
    gradient, loss = slope(model, layer, x, y, again)
    return gradient.square().flatten(1).sum(1).mean(), loss


def crops(x):
    """Of each picture another crop, every other one mirrored."""
    corners = torch.randint(32 - SIDE + 1, (len(x), 2)).tolist()
    parts = torch.stack([p[:, i : i + SIDE, j : j + SIDE] for p, (i, j) in zip(x, corners)])
    return torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, parts.flip(3), parts)


class Training:
    """One model, a step at a time."""

    def __init__(self, gradient, weight, noise, seed, steps):
        torch.manual_seed(seed)
        self.model = Model()
        self.layer, self.weight, self.noise = self.model.layers[gradient], weight, noise
        self.optimiser = torch.optim.Adam(self.model.parameters(), 3e-3)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, steps)
        self.seconds = []

    def step(self, x, y):
        begin = time.process_time()
        if self.noise:
            x = x + self.noise * torch.randn_like(x)
        if self.weight:
            term, loss = penalty(self.model, self.layer, x, y)
            loss = loss + self.weight * term
        else:
            loss = nnf.cross_entropy(self.model(x, self.layer)[0], y)
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.seconds.append(time.process_time() - begin)
        self.schedule.step()


def measured(model, x, y):
    """At the equilibrium, or as near as 30 evaluations come to it, whatever the model was trained with."""
    solver = deq.Broyden(max_evals=30, rtol=1e-3)
    layer = model.layer(solver, gradient=deq.Implicit(solver=solver))
    generator = torch.Generator().manual_seed(7)

    def accuracy(pictures):
        with torch.no_grad():
            return round(100 * (model(pictures, layer)[0].argmax(1) == y).float().mean().item(), 1)

    gradient = slope(model, layer, x, y, again=False)[0]
    row = {"accuracy": accuracy(x)}
    row |= {f"noise {s}": accuracy(x + s * torch.randn(x.shape, generator=generator)) for s in NOISES}
    row |= {f"attack {k}/255": accuracy((x + k / 255 * gradient.sign()).clamp(0, 1)) for k in ATTACKS}
    eq = model(x[:100], layer)[1]
    row["slope"] = gradient.flatten(1).norm(dim=1).mean().item()
    row["rho"] = deq.spectral_radius(eq).mean()
    return row | {"evaluations": sum(s.evaluations for s in eq.report.samples) / len(eq.report.samples)}


def errors(model, x, y, directions=8, step=1e-5):
    """Of the penalty's slopes along random directions of all weights, beside differences of the exact penalty."""
    model.double()
    x, weights = x.double(), list(model.parameters())
    exact = model.layer(TIGHT, gradient=deq.Implicit(solver=TIGHT))
    generator = torch.Generator().manual_seed(3)
    moves = [[torch.randn(w.shape, generator=generator, dtype=w.dtype) for w in weights] for _ in range(directions)]

    def moved(move, by):
        with torch.no_grad():
            for w, along in zip(weights, move):
                w.add_(along, alpha=by)
        value = penalty(model, exact, x, y, again=False)[0].item()
        with torch.no_grad():
            for w, along in zip(weights, move):
                w.sub_(along, alpha=by)
        return value

    expected = torch.tensor([(moved(move, step) - moved(move, -step)) / (2 * step) for move in moves]).double()

    def error(layer):
        gradients = torch.autograd.grad(penalty(model, layer, x, y)[0], weights, allow_unused=True)
        pairs = [[(g * d).sum() for g, d in zip(gradients, move) if g is not None] for move in moves]
        found = torch.stack([sum(pair) for pair in pairs])
        return ((found - expected).norm() / expected.norm()).item()

    def twice(solver):
        return model.layer(solver, gradient=deq.Implicit(solver=solver, twice=True))

    row = {"largest rho": max(deq.spectral_radius(model(x, exact)[1]).rho), "implicit, 1e-11": error(twice(TIGHT))}
    row["implicit, 30 evaluations to 1e-3"] = error(twice(deq.Broyden(max_evals=30, rtol=1e-3)))
    row["implicit, 8 evaluations"] = error(twice(FORWARD))
    return row | {f"unrolled, {n}": error(model.layer(gradient=deq.Unrolled(steps=n))) for n in (8, 30)}


def peak():
    """Of this process's resident memory so far, in MiB."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure_memory(name):
    """In a process of its own: the peak is the process's."""
    training = Training(*SETTINGS[name], seed=1, steps=2)
    x, y = torch.rand(BATCH, 3, SIDE, SIDE), torch.arange(BATCH) % 10
    training.step(x[:1], y[:1])
    before = peak()
    training.step(x, y)
    print(peak() - before)


def memory(name):
    at_once = dict(os.environ, MALLOC_MMAP_THRESHOLD_="65536")  # what is freed goes back to the system at once
    return float(subprocess.check_output([sys.executable, __file__, "--measure", name], env=at_once))


def run(arguments):
    train, train_y = data.read(arguments.folder / "train", 0, 500)
    test, test_y = data.read(arguments.folder / "test", 0, 100)
    edge = (32 - SIDE) // 2
    test = test[:, :, edge : edge + SIDE, edge : edge + SIDE]
    peaks = {name: round(memory(name)) for name in SETTINGS}
    for seed in arguments.seeds:
        runs = {name: Training(*setting, seed, arguments.steps) for name, setting in SETTINGS.items()}
        for _ in range(arguments.steps):
            rows = torch.randint(len(train), (BATCH,))
            x, y = crops(train[rows]), train_y[rows]
            for training in runs.values():
                training.step(x, y)
        first = statistics.median(next(iter(runs.values())).seconds)
        for name, training in runs.items():
            row = measured(training.model, test, test_y)
            row["step_time"] = round(statistics.median(training.seconds) / first, 2)
            print(json.dumps({"setting": name, "seed": seed, **row, "memory": peaks[name]}), flush=True)
        for name in CHECKED:
            row = errors(runs[name].model, test[:8], test_y[:8])
            print(json.dumps({"checked": name, "seed": seed, **row}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.measure:
        measure_memory(arguments.measure)
    elif arguments.folder is None:
        parser.error("name the folder of the data")
    else:
        run(arguments)


if __name__ == "__main__":
    main()

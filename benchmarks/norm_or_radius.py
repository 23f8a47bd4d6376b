#!/usr/bin/env python3
"""What a penalty on the norm of J and one on its radius buy, and what a warm start saves, on a small model.

    PYTHONPATH=build/release/python python3 benchmarks/norm_or_radius.py DIR [--steps 800] [--seeds 1 2 3]

DIR holds CIFAR-10 as train/<class>/*.jpg and test/<class>/*.jpg. f(z; x) = norm(x + W₂ relu(W₁ z)) with 96 numbers sees
the pictures at 8 x 8. One line of JSON for each training: accuracy and loss at the equilibrium, ρ and ‖J‖_F there, the
evaluations of Anderson and Picard to a residual of 1e-3, the path distance at the training's budget, and for a window that
moves by so many pixels a picture, the evaluations of cold and warm solves. Minutes on one core. Needs Pillow.
"""

import argparse
import json
import pathlib

import torch
import torch.nn.functional as nnf
from PIL import Image

import deq

DIM, SIDE = 96, 8
TRAINING = deq.Anderson(rtol=1e-3, max_evals=10)
EXACT = deq.Anderson(rtol=1e-3, max_evals=60)
# Power steps (0: the Frobenius norm), γ, and the noise of the starts.
SETTINGS = [(0, 0, 0), (0, 0, 1), *((0, gamma, 0) for gamma in (0.2, 1, 3))]
SETTINGS += [(steps, gamma, 0) for steps in (1, 3) for gamma in (0.02, 0.1, 0.4)]
SHIFTS = (0.02, 0.1, 0.5)


def read(folder, side, first, count):
    """[N, side, side, 3] and the classes of so many pictures of each."""
    pictures, labels = [], []
    for label, of_class in enumerate(sorted(folder.iterdir())):
        for file in sorted(of_class.iterdir())[first : first + count]:
            picture = Image.open(file).convert("RGB").resize((side, side), Image.BOX)
            numbers = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
            pictures.append(numbers.view(side, side, 3) / 255)
            labels.append(label)
    return torch.stack(pictures), torch.tensor(labels)


def window(picture, shift):
    """24 x 24 pixels of a picture [1, 32, 32, 3], so far to the right, as the model sees them."""
    theta = torch.tensor([[[0.75, 0, -0.25 + shift / 16], [0, 0.75, 0]]])
    grid = nnf.affine_grid(theta, (1, 3, 24, 24), align_corners=False)
    pixels = nnf.grid_sample(picture.permute(0, 3, 1, 2), grid, align_corners=False)
    return nnf.adaptive_avg_pool2d(pixels, SIDE).permute(0, 2, 3, 1).flatten(1)


class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inject = torch.nn.Linear(3 * SIDE**2, DIM)
        self.inner = torch.nn.Linear(DIM, 2 * DIM)
        self.outer = torch.nn.Linear(2 * DIM, DIM, bias=False)
        self.norm = torch.nn.LayerNorm(DIM)
        with torch.no_grad():
            self.outer.weight.mul_(2)  # not stable by itself

    def forward(self, z, x):
        return self.norm(x + self.outer(torch.relu(self.inner(z))))


def trained(x, y, power_steps, gamma, noise, seed, steps):
    torch.manual_seed(seed)
    cell, head = Cell(), torch.nn.Linear(DIM, 10)
    layer = deq.Equilibrium(cell, forward=TRAINING, gradient=deq.Implicit(solver=TRAINING), start_noise=noise)
    parameters = [*cell.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        eq = layer(cell.inject(x[rows]))
        loss = nnf.cross_entropy(head(eq.z), y[rows])
        if gamma > 0:
            loss += gamma * (deq.spectral_penalty(eq, steps=power_steps) if power_steps else deq.jacobian_penalty(eq))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        schedule.step()
    return cell, head, layer.eval()


def evaluations(layer, x, options):
    samples = layer(x, solver=deq.Solver(options)).report.samples
    return sum(sample.evaluations for sample in samples) / len(samples)


@torch.no_grad()
def measured(cell, head, layer, x, y):
    inner = cell.inject(x)
    logits = head(layer(inner, solver=deq.Solver(EXACT)).z)
    at = layer(inner[:100], solver=deq.Solver(deq.Broyden(rtol=1e-5, max_evals=90)))
    generator = torch.Generator().manual_seed(7)
    return {
        "accuracy": 100 * (logits.argmax(1) == y).float().mean().item(),
        "loss": nnf.cross_entropy(logits, y).item(),
        "rho": deq.spectral_radius(at).mean(),
        "norm": deq.frobenius_squared(at, probes=8, key=deq.ProbeKey(1)).sqrt().mean().item(),
        "anderson": evaluations(layer, inner, EXACT),
        "picard": evaluations(layer, inner, deq.Picard(rtol=1e-3, max_evals=100)),
        "path_distance": deq.path_distance(layer(inner[:200]), TRAINING, generator=generator).mean().item(),
    }


@torch.no_grad()
def streamed(cell, pictures, scaled, shift):
    """Evaluations of cold and of warm solves, a picture at a time."""
    layer = deq.Equilibrium(cell, forward=EXACT).eval()
    costs = []
    for picture in pictures.split(1):
        stream = deq.Stream(layer, compare_every=1)
        for k in range(16):
            stream.next(cell.inject(scaled(window(picture, shift * k))))
        costs.append(stream.cost)
    compared = sum(cost.compared for cost in costs)
    return [round(sum(each) / compared, 2) for each in
            ([cost.compared_cold for cost in costs], [cost.compared_warm for cost in costs])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train, train_y = read(arguments.folder / "train", SIDE, 0, 600)
    test, test_y = read(arguments.folder / "test", SIDE, 0, 100)
    moving, _ = read(arguments.folder / "test", 32, 200, 2)
    train, test = train.flatten(1), test.flatten(1)
    mean, deviation = train.mean(0), train.std(0)

    def scaled(x):
        return (x - mean) / deviation

    for seed in arguments.seeds:
        for power_steps, gamma, noise in SETTINGS:
            cell, head, layer = trained(scaled(train), train_y, power_steps, gamma, noise, seed, arguments.steps)
            row = {"power_steps": power_steps, "gamma": gamma, "start_noise": noise, "seed": seed}
            row |= measured(cell, head, layer, scaled(test), test_y)
            row |= {f"cold and warm at {shift}": streamed(cell, moving, scaled, shift) for shift in SHIFTS}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What warm starts over a stream and tangents through the equilibrium are worth on a small multiscale DEQ and pictures.

    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python python3 benchmarks/methods_in_python.py build/release/bin/deq DIR
        [--steps 300] [--seeds 1 2 3] [--tables streams budgets tangents predictions]

DIR holds CIFAR-10 as train/<class>/*.jpg and test/<class>/*.jpg. Trains the model of small_images.py by the program,
without a penalty and with one on the radius, and goes on with its weights in plain PyTorch (mdeq_in_python.py). One line of
JSON for each figure. Evaluations are means over samples and over the pictures of a stream after its first; time is the
processor's. Needs Pillow and safetensors. second_derivatives.py measures the third method of this kind.
"""

import functools
import json
import statistics

import torch

import deq
import mdeq_in_python as mdeq
import small_images
from mdeq_in_python import MOST, seconds_of, window
from methods_on_images import COMMON, STABLE
from small_images import rounded
from tangents_in_python import predictions, tangents

MODELS = {"no penalty": {}, "radius, 0.15": STABLE}
SOLVERS = {"Anderson": deq.Anderson, "Broyden": deq.Broyden}
FRAMES = 7


def moving(pixels):
    return lambda pictures, k: window(pictures, pixels * k)


def noisy(pictures, k):
    still, generator = window(pictures, 0), torch.Generator().manual_seed(k)
    return still + 0.02 * torch.randn(still.shape, generator=generator)


def brighter(pictures, k):
    return window(pictures, 0) + 0.01 * k


def another(pictures, k):
    return window(pictures, 0).roll(k, 0)


STREAMS = {"still": moving(0), "0.1 pixel": moving(0.1), "0.3 pixel": moving(0.3), "1 pixel": moving(1)}
STREAMS |= {"noise 0.02": noisy, "0.01 brighter": brighter, "another picture": another}
AT_BUDGETS = ("still", "0.3 pixel", "1 pixel", "noise 0.02", "another picture")


def frames(pictures, stream):
    return [mdeq.scaled(stream(pictures, k)) for k in range(FRAMES)]


class Tally:
    """What solves took and gave, over the pictures of a stream after its first."""

    def __init__(self, model):
        self.model, self.evaluations, self.residuals, self.answers, self.converged = model, [], [], [], []

    def add(self, eq):
        self.evaluations += [sample.evaluations for sample in eq.report.samples]
        self.residuals += [sample.relative for sample in eq.report.samples]
        self.converged += [sample.status == "converged" for sample in eq.report.samples]
        self.answers.append(self.model.classify(eq.state).argmax(1))

    def mean(self, name):
        return round(statistics.fmean(getattr(self, name)), 4)


def both_ways(model, options, pictures):
    """Cold and warm solves of the same pictures."""
    layer = deq.Equilibrium(model, forward=options).eval()
    stream, cold, warm = deq.Stream(layer), Tally(model), Tally(model)
    for k, x in enumerate(pictures):
        found = stream.next(x)
        if k > 0:
            warm.add(found)
            cold.add(layer(x))
    return cold, warm


def times(model, options, pictures):
    """Warm over cold: the processor's time of a picture by itself, medians, and of the cold solve in milliseconds."""
    layer, cold, ratios = deq.Equilibrium(model, forward=options).eval(), [], []
    for n in range(len(pictures[0])):
        stream = deq.Stream(layer)
        for k, x in enumerate(pictures):
            warm = seconds_of(stream.next, x[n : n + 1])[0]
            if k > 0:
                cold.append(seconds_of(layer, x[n : n + 1])[0])
                ratios.append(warm / cold[-1])
    return {"time": rounded(statistics.median(ratios)), "cold_ms": rounded(1e3 * statistics.median(cold))}


@torch.no_grad()
def streams(model, pictures, labels, tell):
    for name, stream in STREAMS.items():
        x = frames(pictures[:24], stream)
        for kind, solver in SOLVERS.items():
            for rtol in (1e-2, 1e-3):
                cold, warm = both_ways(model, solver(max_evals=MOST, rtol=rtol), x)
                row = {"solver": kind, "rtol": rtol, "cold": cold.mean("evaluations"), "warm": warm.mean("evaluations")}
                same = [(a == b).float().mean().item() for a, b in zip(cold.answers, warm.answers)]
                row |= {"agree": round(100 * statistics.fmean(same), 1)}
                row |= {"converged": [cold.mean("converged"), warm.mean("converged")]}
                if rtol == 1e-3:
                    row |= times(model, solver(max_evals=MOST, rtol=rtol), [part[:4] for part in x])
                tell(table="streams", stream=name, **row)


@torch.no_grad()
def budgets(model, pictures, labels, tell):
    for name in AT_BUDGETS:
        x = frames(pictures, STREAMS[name])
        y = [labels.roll(k) if name == "another picture" else labels for k in range(1, FRAMES)]
        for budget in (2, 3, 4, 30):
            for way, tally in zip(("cold", "warm"), both_ways(model, deq.Anderson(max_evals=budget, rtol=1e-3), x)):
                right = [(a == b).float().mean().item() for a, b in zip(tally.answers, y)]
                row = {"residual": rounded(statistics.fmean(tally.residuals))}
                row |= {"accuracy": round(100 * statistics.fmean(right), 1)}
                tell(table="budgets", stream=name, budget=budget, way=way, **row)


TABLES = {"streams": streams, "budgets": budgets, "tangents": tangents, "predictions": predictions}


def print_row(**row):
    print(json.dumps(row), flush=True)


def main():
    parser = small_images.parser_of(__doc__.splitlines()[0], steps=300)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pictures, labels = mdeq.read(arguments.folder / "test", 0, 8)
    with small_images.small_model(arguments) as small:
        for seed in arguments.seeds:
            for name, setting in MODELS.items():
                run = small.run(name, seed)
                overrides = {"seed": seed, "train.steps": arguments.steps, "train.eval_every_steps": arguments.steps}
                small.train(run, {**overrides, **COMMON, **setting})
                model = mdeq.load(run)
                tell = functools.partial(print_row, model=name, seed=seed)
                for table in arguments.tables:
                    if setting or table != "tangents":  # without a penalty not all solves get to 1e-12
                        TABLES[table](model, pictures, labels, tell)


if __name__ == "__main__":
    main()

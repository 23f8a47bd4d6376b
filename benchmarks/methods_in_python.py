#!/usr/bin/env python3
"""What warm starts over a stream and tangents through the equilibrium are worth on a small multiscale DEQ and pictures.

    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python python3 benchmarks/methods_in_python.py build/release/bin/deq DIR
        [--steps 300] [--seeds 1 2 3] [--tables streams budgets tangents predictions]

DIR holds CIFAR-10 as train/<class>/*.jpg and test/<class>/*.jpg. Trains the model of small_images.py by the program,
without a penalty and with one on the radius, and goes on with its weights in plain PyTorch (mdeq_in_python.py). One line of
JSON for each figure. Evaluations are means over samples and over the pictures of a stream after its first; time is the
processor's. Needs Pillow and safetensors. second_derivatives.py measures the third method of this kind.
"""

import copy
import json
import statistics
import time

import torch
import torch.nn.functional as nnf

import deq
import mdeq_in_python as mdeq
import small_images
from methods_on_images import COMMON, STABLE
from small_images import rounded

MODELS = {"no penalty": {}, "radius, 0.15": STABLE}
MOST = 60
SOLVERS = {"Anderson": deq.Anderson, "Broyden": deq.Broyden}
FRAMES = 7


def window(pictures, shift):
    """32 × 32 pixels of pictures that were enlarged to 40 × 40, so many of their pixels to the right."""
    large = nnf.interpolate(pictures, size=40, mode="bilinear", align_corners=False)
    theta = torch.tensor([[0.8, 0, -0.2 + shift / 20], [0, 0.8, 0]], dtype=pictures.dtype)
    grid = nnf.affine_grid(theta.expand(len(large), 2, 3), (len(large), 3, 32, 32), align_corners=False)
    return nnf.grid_sample(large, grid, align_corners=False)


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


def seconds_of(work, *arguments):
    begin = time.process_time()
    result = work(*arguments)
    return time.process_time() - begin, result


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
    pictures, labels = pictures[:80], labels[:80]
    for name in AT_BUDGETS:
        x = frames(pictures, STREAMS[name])
        y = [labels.roll(k) if name == "another picture" else labels for k in range(1, FRAMES)]
        for budget in (2, 3, 4, 30):
            for way, tally in zip(("cold", "warm"), both_ways(model, deq.Anderson(max_evals=budget, rtol=1e-3), x)):
                right = [(a == b).float().mean().item() for a, b in zip(tally.answers, y)]
                row = {"residual": rounded(statistics.fmean(tally.residuals))}
                row |= {"accuracy": round(100 * statistics.fmean(right), 1)}
                tell(table="budgets", stream=name, budget=budget, way=way, **row)


def relative(found, expected):
    """The median of the samples' errors."""
    apart = (found - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
    return rounded(apart.median().item())


def flat(state):
    return torch.cat([part.flatten(1) for part in state], 1)


def unflat(model, slab, x):
    parts = model.initial_state(x)
    return tuple(s.view_as(part) for s, part in zip(slab.split([part[0].numel() for part in parts], 1), parts))


class Directions:
    """What moves: the pictures by their brightness or by a shift, or a weight of f. `moved(step)` is the model's pass there."""

    def __init__(self, model, pictures):
        self.model, self.pictures = model, pictures
        self.x = mdeq.scaled(window(pictures, 0.5)).requires_grad_()
        self.weight = model.fullstage.branches[0]["blocks"][0].conv2.weight.requires_grad_()
        along = torch.randn(self.weight.shape, generator=torch.Generator().manual_seed(5)).to(self.weight)
        self.along = along * self.weight.norm() / along.norm()
        shift = (mdeq.scaled(window(pictures, 0.6)) - mdeq.scaled(window(pictures, 0.4))) / 0.2
        self.moves = {
            "brightness": (self.x, mdeq.scaled(pictures + 1) - mdeq.scaled(pictures)),
            "shift": (self.x, shift),
            "weight": (self.weight, self.along),
        }

    def tangent(self, name, solver, options):
        """ż as a slab, that of the logits, and the pass and the report."""
        eq = deq.Equilibrium(self.model, forward=solver, gradient=deq.Implicit(solver=solver)).eval()(self.x)
        found = deq.tangent(eq, [self.moves[name]], solver=options)
        z = tuple(part.detach() for part in eq.state)
        logits = torch.func.jvp(self.model.classify, (z,), (unflat(self.model, found.along, self.x),))[1]
        return found.along, logits, eq, found.report

    @torch.no_grad()
    def difference(self, name, step, solver):
        """Central, of the logits."""
        tensor, along = self.moves[name]
        layer, ends = deq.Equilibrium(self.model, forward=solver).eval(), []
        for by in (step, -2 * step):
            tensor.add_(along, alpha=by)
            ends.append(self.model.classify(layer(self.x).state))
        tensor.add_(along, alpha=step)
        return (ends[0] - ends[1]) / (2 * step)


def tangents(model, pictures, labels, tell):
    """Errors of the logits' derivative, beside the tangent in float64 to 1e-12; and what each way costs."""
    double = copy.deepcopy(model).double()
    exact, single = Directions(double, pictures[:8].double()), Directions(model, pictures[:8])
    tight = deq.Broyden(max_evals=200, rtol=1e-12)
    for name in exact.moves:
        true = exact.tangent(name, tight, tight)[1]
        for step in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
            row = {f"float64, {rtol:g}": relative(exact.difference(name, step, tight.replace(rtol=rtol)), true)
                   for rtol in (1e-12, 1e-5)}
            row |= {f"float32, {rtol:g}": relative(single.difference(name, step, tight.replace(rtol=rtol)).double(), true)
                    for rtol in (1e-6, 1e-3)}
            tell(table="differences", along=name, step=step, **row)
        for rtol in (1e-2, 1e-3, 1e-4, 1e-6):
            solver = deq.Broyden(max_evals=MOST, rtol=rtol)
            _, logits, eq, report = single.tangent(name, solver, solver)
            tell(table="tangents", along=name, rtol=rtol, error=relative(logits.double(), true),
                 evaluations=eq.report.evaluations, products=report.evaluations)
    costs(single, labels[:8], tell)


def costs(at, labels, tell):
    """In units of a pass to 1e-3 with its graph: a backward, a tangent, and the two solves of a difference."""
    solver = deq.Broyden(max_evals=MOST, rtol=1e-3)
    tight = solver.replace(rtol=1e-5)
    layer = deq.Equilibrium(at.model, forward=solver, gradient=deq.Implicit(solver=solver)).eval()
    seconds = {}
    for _ in range(7):
        taken, eq = seconds_of(layer, at.x)
        one = {"pass": taken}
        for name in at.moves:
            one[f"tangent, {name}"] = seconds_of(lambda: deq.tangent(eq, [at.moves[name]], solver=solver))[0]  # noqa: B023
        loss = nnf.cross_entropy(at.model.classify(eq.state), labels)
        one["backward"] = seconds_of(loss.backward)[0]  # before anything moves in place
        one["difference, 1e-3"] = seconds_of(at.difference, "brightness", 1e-2, solver)[0]
        one["difference, 1e-5"] = seconds_of(at.difference, "brightness", 1e-2, tight)[0]
        for name, value in one.items():
            seconds.setdefault(name, []).append(value / one["pass"])
    counts = {"evaluations": eq.report.evaluations, "products back": eq.adjoint.evaluations}
    tell(table="costs", **{name: rounded(statistics.median(values)) for name, values in seconds.items()}, **counts)


CHANGES = {"brightness": (0.01, 0.03, 0.1), "shift": (0.1, 0.3, 0.5), "weight": (0.01, 0.03, 0.1)}


def predictions(model, pictures, labels, tell):
    """How far z* + ż is from the new equilibrium, beside z*, and how many evaluations a solve takes from there."""
    at = Directions(model, pictures[:24])
    tight, solver = (deq.Anderson(max_evals=100, rtol=1e-5), deq.Anderson(max_evals=MOST, rtol=1e-3))
    layer, exact = (deq.Equilibrium(model, forward=options).eval() for options in (solver, tight))
    for name, steps in CHANGES.items():
        along, _, eq, report = at.tangent(name, deq.Broyden(max_evals=MOST, rtol=1e-3), deq.Broyden(max_evals=MOST, rtol=1e-2))
        z, (tensor, direction) = flat(eq.state).detach(), at.moves[name]
        for step in steps:
            with torch.no_grad():
                tensor.sub_(direction, alpha=step)
                before = flat(layer(at.x).state)
                tensor.add_(direction, alpha=2 * step)
                there = flat(exact(at.x).state)
                starts = {"zeros": 0 * z, "warm": z, "tangent": z + step * along, "extrapolated": 2 * z - before}
                row = {}
                for start, value in starts.items():
                    samples = layer(at.x, z0=unflat(model, value, at.x)).report.samples
                    row[start] = round(statistics.fmean(sample.evaluations for sample in samples), 2)
                    row[f"from {start}"] = relative(value, there)
                tensor.sub_(direction, alpha=step)
            row["left"] = rounded(((z + step * along - there).norm(dim=1) / (z - there).norm(dim=1)).median().item())
            tell(table="predictions", along=name, step=step, products=report.evaluations, **row)


TABLES = {"streams": streams, "budgets": budgets, "tangents": tangents, "predictions": predictions}


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

                def tell(**row):
                    print(json.dumps({"model": name, "seed": seed, **row}), flush=True)  # noqa: B023

                for table in arguments.tables:
                    if setting or table != "tangents":  # without a penalty not all solves get to 1e-12
                        TABLES[table](model, pictures, labels, tell)


if __name__ == "__main__":
    main()

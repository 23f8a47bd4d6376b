"""The part of methods_in_python.py that is about tangents: how exact they are, what they cost, and what they predict."""

import copy
import functools
import statistics

import torch
import torch.nn.functional as nnf

import deq
from mdeq_in_python import MOST, scaled, seconds_of, window
from small_images import rounded


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
    """What moves: the pictures by their brightness or by a shift of a pixel, or a weight of f by its own norm."""

    def __init__(self, model, pictures):
        self.model = model
        self.x = scaled(window(pictures, 0.5)).requires_grad_()
        self.weight = model.fullstage.branches[0]["blocks"][0].conv2.weight.requires_grad_()
        along = torch.randn(self.weight.shape, generator=torch.Generator().manual_seed(5)).to(self.weight)
        self.along = along * self.weight.norm() / along.norm()
        shift = (scaled(window(pictures, 0.6)) - scaled(window(pictures, 0.4))) / 0.2
        self.moves = {
            "brightness": (self.x, scaled(pictures + 1) - scaled(pictures)),
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
        for name, move in at.moves.items():
            one[f"tangent, {name}"] = seconds_of(functools.partial(deq.tangent, eq, [move], solver=solver))[0]
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
        broyden = deq.Broyden(max_evals=MOST, rtol=1e-3)
        along, _, eq, report = at.tangent(name, broyden, broyden.replace(rtol=1e-2))
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

"""Networks that solve puzzles: against the same in plain PyTorch, and as a training uses them."""

import copy
import math
import os
import pathlib
import runpy

import pytest
import torch
from torch.nn.functional import linear, rms_norm, silu

import deq
from deq import models

SOURCE = pathlib.Path(os.environ.get("DEQ_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
SMALL = dict(vocabulary=5, tokens=9, width=12, inner_multiple=4, inner_steps=2)
SEGMENT = deq.Unrolled(steps=3, backpropagated=1)


def swiglu(x, parameters, name):
    gate, up = linear(x, parameters[f"{name}.gate_up"]).chunk(2, -1)
    return linear(silu(gate) * up, parameters[f"{name}.down"])


def plain_block(h, parameters):
    for layer in ("cell.block.layer0", "cell.block.layer1"):
        turned = h.transpose(1, 2)
        h = rms_norm(turned + swiglu(turned, parameters, f"{layer}.tokens"), [h.shape[1]], eps=1e-5).transpose(1, 2)
        h = rms_norm(h + swiglu(h, parameters, f"{layer}.features"), [h.shape[2]], eps=1e-5)
    return h


def plain_recursions(model, tokens, start, steps):
    parameters = dict(model.named_parameters())
    x = parameters["embedding"][tokens] * math.sqrt(model.options.width)
    y, z = start
    for _ in range(steps):
        for _ in range(model.options.inner_steps):
            z = torch.lerp(z, plain_block(z + y + x, parameters), model.options.damping)
        y = torch.lerp(y, plain_block(y + z, parameters), model.options.damping)
    return y, z


def puzzles(seed=0, batch=3):
    return torch.randint(5, (batch, 9), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("damping", [1.0, 0.9])
def test_recursions_and_their_gradients_are_those_of_plain_pytorch(damping):
    model = models.Reasoner(**SMALL, damping=damping, gradient=deq.Unrolled(steps=2)).double()
    tokens = puzzles()
    start = model.start_of(tokens)
    output = model(tokens, start)
    y, z = plain_recursions(model, tokens, start, 2)
    for found, expected in zip(output.equilibrium.state, (y, z)):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    parameters = dict(model.named_parameters())
    torch.testing.assert_close(output.logits, linear(y, parameters["head"]), rtol=1e-10, atol=1e-10)
    assert torch.equal(output.settled, torch.full((3,), -5.0, dtype=torch.float64)), "no answer is thought right at first"

    weight = torch.randn(3, 9, 5, dtype=torch.float64)
    found = torch.autograd.grad((output.logits * weight).sum(), list(parameters.values()), allow_unused=True)
    expected = torch.autograd.grad(
        (linear(y, parameters["head"]) * weight).sum(), list(parameters.values()), allow_unused=True
    )
    for name, mine, theirs in zip(parameters, found, expected):
        assert (mine is None) == (theirs is None) or (mine == 0).all(), name
        if theirs is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10, msg=name)


def test_the_defaults_have_the_published_number_of_parameters():
    # Published: 4,855,298, with a second output of the halting head that nothing uses.
    assert sum(parameter.numel() for parameter in models.Reasoner().parameters()) == 4_855_298 - 513


def test_segments_go_on_where_the_last_one_ended():
    model = models.Reasoner(**SMALL, gradient=SEGMENT)
    tokens = puzzles()
    start = model.start_of(tokens)
    first = model(tokens, start)
    assert first.logits.requires_grad and not any(tensor.requires_grad for tensor in first.carried)
    second = model(tokens, first.carried)
    whole = model(tokens, start, deq.EquilibriumPlan(deq.EquilibriumOptions(gradient=deq.Unrolled(steps=6))))
    torch.testing.assert_close(second.logits, whole.logits, rtol=1e-4, atol=1e-5)


def test_any_solver_and_gradient_trains_it():
    model = models.Reasoner(**SMALL, damping=0.5, forward=deq.Anderson(max_evals=6), gradient=deq.JacobianFree()).double()
    tokens = puzzles()
    start = model.start_of(tokens)
    with torch.no_grad():
        settled = model(tokens, start).equilibrium.state
    output = model(tokens, start)
    y, _ = plain_recursions(model, tokens, settled, 1)
    matrix = model.get_parameter("cell.block.layer0.tokens.down")
    found = torch.autograd.grad(output.logits.square().sum(), matrix, retain_graph=True)
    expected = torch.autograd.grad(linear(y, model.get_parameter("head")).square().sum(), matrix)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)
    deq.jacobian_penalty(output.equilibrium).backward()
    assert matrix.grad is not None and matrix.grad.isfinite().all() and matrix.grad.abs().max() > 0


def test_of_many_starts_the_most_settled_one_counts():
    model = models.Reasoner(**SMALL, start="random", noise=0.1, forward=deq.Picard(max_evals=4), gradient=SEGMENT)
    model.train()
    tokens = puzzles(batch=6)
    alone = [model.solve(tokens, generator=torch.Generator().manual_seed(seed)) for seed in range(1)]
    generator = torch.Generator().manual_seed(0)
    each = [model.solve(tokens, generator=generator) for _ in range(4)]
    best = model.solve(tokens, breadth=4, generator=torch.Generator().manual_seed(0))
    residuals = torch.stack([answer.residual for answer in each])
    assert torch.equal(alone[0].residual, each[0].residual)
    assert torch.equal(best.residual, residuals.min(0).values)
    for row, chosen in enumerate(residuals.argmin(0)):
        assert torch.equal(best.contents[row], each[chosen].contents[row])
    assert model.training, "it is left in its mode"
    assert not best.settled.requires_grad
    with pytest.raises(deq.Error, match="breadth is 2, must be ≥ 1, and 1 unless start is 'random'"):
        models.Reasoner(**SMALL).solve(tokens, breadth=2)


def test_a_start_of_another_shape_is_refused():
    model = models.Reasoner(**SMALL)
    with pytest.raises(deq.Error):
        model(puzzles(), model.start_of(puzzles(batch=2)))
    with pytest.raises(deq.Error):
        model(torch.zeros(2, 4, dtype=torch.int64))


def test_it_is_kept_in_files_and_copied(tmp_path):
    model = models.Reasoner(**SMALL, start="random", damping=0.9, gradient=SEGMENT).eval()
    model.save_pretrained(tmp_path)
    tokens = puzzles()
    start = model.start_of(tokens, torch.Generator().manual_seed(1))
    for other in (models.Reasoner.from_pretrained(tmp_path), copy.deepcopy(model)):
        assert other.options == model.options and other.plan.options == model.plan.options
        assert torch.equal(other(tokens, start).logits, model(tokens, start).logits)


def test_stablemax_is_a_distribution_with_gradients_everywhere():
    logits = torch.tensor([[-1e30, -3.0, 0.0, 1.0], [2.0, 1e30, -0.5, 7.0]], dtype=torch.float64, requires_grad=True)
    targets = torch.arange(4).repeat(2, 1)
    costs = models.stablemax_cross_entropy(logits.unsqueeze(1).expand(2, 4, 4), targets)
    torch.testing.assert_close(costs.neg().exp().sum(1), torch.ones(2, dtype=torch.float64))
    s = torch.tensor([1e-30, 0.25, 1.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(costs[0].neg().exp(), s / s.sum())
    (gradient,) = torch.autograd.grad(costs.sum(), logits)
    assert gradient.isfinite().all()
    moderate = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: models.stablemax_cross_entropy(x, torch.tensor([0, 3, 1])), moderate)


def test_the_example_learns():
    script = runpy.run_path(str(SOURCE / "examples/python/sudoku_reasoner.py"))
    found = script["main"](["--steps", "120", "--batch", "32", "--lr", "2e-3"])
    assert set(found) == {1, 4} and found[1] > 0

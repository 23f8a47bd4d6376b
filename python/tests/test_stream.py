"""Warm starts over a stream of inputs, against solves that begin anew."""

import math

import pytest
import torch

import deq

TIGHT = deq.Anderson(rtol=1e-10, max_evals=100)


class Contraction(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Linear(6, 6).double()
        with torch.no_grad():
            self.w.weight.mul_(0.5)

    def forward(self, z, x):
        return torch.tanh(self.w(z) + x)


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return deq.Equilibrium(Contraction(), forward=TIGHT).eval()


def pictures(count):
    torch.manual_seed(1)
    first = torch.randn(3, 6, dtype=torch.float64)
    return [first + 1e-3 * k for k in range(count)]


def test_the_equilibria_are_those_of_cold_solves_in_fewer_evaluations(layer):
    stream = deq.Stream(layer, compare_every=1)
    cold = 0
    for x in pictures(8):
        found, expected = stream.next(x), layer(x)
        torch.testing.assert_close(found.z, expected.z.detach(), rtol=1e-8, atol=1e-9)
        assert not found.z.requires_grad
        cold += expected.report.evaluations
    cost = stream.cost
    assert (cost.inputs, cost.warm, cost.compared) == (8, 7, 7)
    assert cost.evaluations < 0.8 * cold
    assert cost.saved == 1 - cost.compared_warm / cost.compared_cold > 0.2
    assert repr(cost) == f"<StreamCost: {cost.evaluations} evaluations for 8 inputs, 7 warm>"


def test_a_reset_and_another_shape_begin_anew(layer):
    x = pictures(1)[0]
    stream = deq.Stream(layer)
    first = stream.next(x).report.evaluations
    assert stream.next(x).report.evaluations == 1
    stream.reset()
    assert stream.next(x).report.evaluations == first
    stream.next(x[:2])
    assert stream.cost.warm == 1
    assert math.isnan(stream.cost.saved)


def test_a_failure_that_raises_leaves_nothing_to_begin_at():
    layer = deq.Equilibrium(lambda z, x: x * z + 1, forward=deq.Picard(max_evals=60), on_failure="raise").eval()
    stream = deq.Stream(layer)
    good, bad = torch.full((1, 1), 0.5), torch.full((1, 1), 3.0)
    first = stream.next(good).report.evaluations
    with pytest.raises(deq.ConvergenceError):
        stream.next(bad)
    assert stream.next(good).report.evaluations == first


def test_misuse_is_said_in_one_sentence(layer):
    with pytest.raises(TypeError, match="layer is a Contraction, must be a deq.Equilibrium"):
        deq.Stream(Contraction())
    with pytest.raises(deq.Error, match="stream: compare_every = -1, must be ≥ 0"):
        deq.Stream(layer, compare_every=-1)
    with pytest.raises(deq.Error, match=r"call eval\(\) on the layer"):
        deq.Stream(layer.train()).next(pictures(1)[0])
    with pytest.raises(TypeError, match="input 0 is a int, must be a tensor"):
        deq.Stream(layer.eval()).next(3)


def test_a_start_may_follow_the_way_of_the_last_two(layer):
    plain, following = deq.Stream(layer), deq.Stream(layer, extrapolate=1.0)
    for picture in pictures(6):
        torch.testing.assert_close(following.next(picture).z, plain.next(picture).z, rtol=1e-8, atol=1e-8)
    assert following.cost.evaluations < plain.cost.evaluations
    with pytest.raises(deq.Error, match=r"stream: extrapolate = 2, must be in \[0, 1\]"):
        deq.Stream(layer, extrapolate=2.0)

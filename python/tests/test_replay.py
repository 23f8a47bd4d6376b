"""Recorded passes of an f in Python: on the CPU by graphs that keep numbers and branches as a GPU's do, and on a GPU."""

import ctypes
import os

import pytest
import torch

import deq

available, reason = deq.cuda_status()
LIBRARY = os.environ.get("DEQ_FREEZING_LIBRARY")
EXACT = dict(forward=deq.Anderson(rtol=1e-12, max_evals=100), gradient=deq.Implicit(solver=deq.Broyden(rtol=1e-12)))


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """One that records."""
    if request.param == "cuda":
        if not available:
            pytest.skip(reason)
        yield "cuda"
        return
    if LIBRARY is None:
        pytest.skip("DEQ_FREEZING_LIBRARY names no recorder for the CPU")
    record = ctypes.CDLL(LIBRARY).deq_record_on_the_cpu
    record(ctypes.c_bool(True))
    yield "cpu"
    record(ctypes.c_bool(False))


def value_and_gradients(layer, x):
    layer.zero_grad()
    eq = layer(x)
    (eq.z.square().sum() + deq.jacobian_penalty(eq, key=deq.ProbeKey(1))).backward()
    return [t.detach().clone() for t in (eq.z, *(p.grad for p in layer.parameters()))]


def assert_all_close(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b)


@pytest.fixture
def counted(cell, device):
    """The cell on that device, and how often Python ran it."""
    calls = [0]

    def count(module, inputs):
        calls[0] += 1

    cell.to(device).w.register_forward_pre_hook(count)
    return cell, calls


@pytest.mark.parametrize("replay", [False, "automatic", True, "checked"])
def test_a_pass_gives_the_same_evaluated_and_replayed(replay, cell, x, device):
    expected = value_and_gradients(deq.Equilibrium(cell.to(device), replay=False, **EXACT), x.to(device))
    layer = deq.Equilibrium(cell, replay=replay, **EXACT)
    for _ in range(4):  # a kind of pass is recorded when it comes for the second time
        assert_all_close(value_and_gradients(layer, x.to(device)), expected)


def test_a_replay_runs_no_python_and_follows_the_parameters(counted, x, device):
    cell, calls = counted
    layer = deq.Equilibrium(cell, replay=True, **EXACT)
    x = x.to(device)
    for _ in range(3):
        value_and_gradients(layer, x)
    before = calls[0]
    with torch.no_grad():
        cell.w.weight.mul_(0.5)
    replayed = value_and_gradients(layer, x)
    assert calls[0] == before
    assert_all_close(replayed, value_and_gradients(deq.Equilibrium(cell, replay=False, **EXACT), x))


def test_nothing_is_replayed_without_a_promise(counted, x, device):
    cell, calls = counted
    layer = deq.Equilibrium(cell, **EXACT)
    for _ in range(3):
        value_and_gradients(layer, x.to(device))
    before = calls[0]
    value_and_gradients(layer, x.to(device))
    assert calls[0] > before


def test_a_new_parameter_is_another_recording(cell, x, device):
    layer = deq.Equilibrium(cell.to(device), replay=True, **EXACT)
    x = x.to(device)
    for _ in range(3):
        value_and_gradients(layer, x)
    cell.w.weight = torch.nn.Parameter(0.5 * cell.w.weight.detach())
    expected = value_and_gradients(deq.Equilibrium(cell, replay=False, **EXACT), x)
    for _ in range(3):
        assert_all_close(value_and_gradients(layer, x), expected)


class Scaled(deq.Cell):
    """Its result depends on a number and on its mode."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Linear(5, 5, dtype=torch.float64)
        self.scale = 0.5

    def step(self, z, x):
        return torch.tanh(self.scale * (0.3 if self.training else 0.6) * self.w(z) + x)

    def replay_key(self):
        return [self.scale]


def test_a_cells_key_and_its_mode_tell_recordings_apart(x, device):
    cell = Scaled().to(device)
    layer = deq.Equilibrium(cell, **EXACT)
    plain = deq.Equilibrium(cell, replay=False, **EXACT)
    x = x.to(device)
    for training, scale in [(True, 0.5)] * 3 + [(True, 1.0)] * 3 + [(False, 1.0)] * 3 + [(True, 0.5)]:
        cell.train(training)
        cell.scale = scale
        torch.testing.assert_close(layer(x).z, plain(x).z)


def test_a_broken_promise_is_named(x, device):
    class Forgetful(Scaled):
        def replay_key(self):
            return []

    cell = Forgetful().to(device)
    layer = deq.Equilibrium(cell, replay="checked", **EXACT)
    for _ in range(3):
        layer(x.to(device))
    cell.scale = 1.0
    with pytest.raises(deq.Error, match="differs|differ"):
        layer(x.to(device))


def test_a_failed_adjoint_solve_is_raised_by_every_backward(cell, x, device):
    hopeless = deq.Implicit(solver=deq.Picard(max_evals=1, rtol=1e-12))
    layer = deq.Equilibrium(cell.to(device), gradient=hopeless, on_failure="raise", replay=True)
    for _ in range(4):
        with pytest.raises(deq.ConvergenceError, match="the adjoint solve failed"):
            layer(x.to(device)).z.sum().backward()

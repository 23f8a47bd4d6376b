"""Recorded passes of an f in Python: on the CPU by graphs that keep numbers and branches as a GPU's do, and on a GPU."""

import ctypes
import os
import warnings

import pytest
import torch

import deq
from conftest import interrupted

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


def test_a_function_without_a_key_is_not_told_of_its_key(x, device):
    scale = [0.5]
    layer = deq.Equilibrium(lambda z, x: torch.tanh(scale[0] * z + x), replay="checked", **EXACT)
    for _ in range(3):
        layer(x.to(device))
    scale[0] = 0.1
    with pytest.raises(deq.Error, match="differs .* depends on something besides its arguments, its modules' tensors and"):
        layer(x.to(device))


def test_a_failed_adjoint_solve_is_raised_by_every_backward(cell, x, device):
    hopeless = deq.Implicit(solver=deq.Picard(max_evals=1, rtol=1e-12))
    layer = deq.Equilibrium(cell.to(device), gradient=hopeless, on_failure="raise", replay=True)
    for _ in range(4):
        with pytest.raises(deq.ConvergenceError, match="the adjoint solve failed"):
            layer(x.to(device)).z.sum().backward()


def test_a_pass_says_whether_it_was_replayed(cell, x, device):
    x = x.to(device)
    layer = deq.Equilibrium(cell.to(device), replay=True, **EXACT)
    assert [layer(x).replayed for _ in range(3)] == [False, True, True]  # each gives its recording back
    layer.eval()
    with torch.no_grad():
        assert [layer(x).replayed for _ in range(3)] == [False, True, True]
    assert not deq.Equilibrium(cell, replay=False, **EXACT)(x).replayed
    unrolled = deq.Equilibrium(cell, replay=True, gradient=deq.Unrolled(steps=3, replayed=True))
    assert [unrolled(x).replayed for _ in range(3)] == [False, True, True]


class Failing(deq.Cell):
    """Raises in its `at`-th step."""

    def __init__(self, error, at):
        super().__init__()
        self.w = torch.nn.Linear(5, 5, dtype=torch.float64)
        self.error, self.steps, self.at = error, 0, at

    def step(self, z, x):
        self.steps += 1
        if self.steps == self.at:
            raise self.error
        return torch.tanh(0.3 * self.w(z) + x)

    def replay_key(self):
        return []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("of f's own")], ids=["Ctrl-C", "an error"])
def test_an_exception_while_f_is_recorded_comes_out_and_spoils_nothing(error, x, device):
    cell = Failing(error, at=0).to(device)
    layer = deq.Equilibrium(cell, **EXACT)
    x = x.to(device)
    layer(x)
    cell.at = cell.steps + 1  # the next one is recorded
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(type(error)):
            layer(x)
        assert [layer(x).replayed for _ in range(2)] == [True, True]


@pytest.mark.parametrize("training", [True, False])
def test_what_cannot_be_recorded_is_warned_of_by_python(training, x, device):
    layer = deq.Equilibrium(lambda z, x: torch.tanh(0.5 * z + x) * (1 if z.sum().item() < 1e9 else 2), replay=True, **EXACT)
    layer.train(training)
    x = x.to(device)
    with torch.set_grad_enabled(training):
        layer(x)
        with pytest.warns(UserWarning, match="cannot be replayed as a graph and is evaluated step by step: "):
            eq = layer(x)
    assert not eq.replayed and eq.report.converged


def test_ctrl_c_stops_a_replayed_solve(device):
    """And its adjoint, in which no Python runs at all; on a GPU torch lets backward() end first."""
    endless = "deq.Picard(rtol=0.0, max_evals=10**9, stagnation_window=0)"
    record = f"ctypes.CDLL({LIBRARY!r}).deq_record_on_the_cpu(ctypes.c_bool(True))" if device == "cpu" else "x = x.cuda()"
    forward = f"{record}; f = layer(replay=True); f(x); assert f(x).replayed"
    assert interrupted(f"f(x, solver=deq.Solver({endless}))", before=forward) == "stopped\n"
    if device == "cpu":
        adjoint = f"{record}; f = layer(replay=True, gradient=deq.Implicit(solver={endless})); f(x); assert f(x).replayed"
        assert interrupted("f(x).z.sum().backward()", before=adjoint) == "stopped\n"


def test_a_device_without_graphs_is_warned_of_once(cell, x):
    layer = deq.Equilibrium(cell, replay=True)
    with pytest.warns(UserWarning, match="replay=True, but z is evaluated step by step: it is on the cpu"):
        layer(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x)
        deq.Equilibrium(cell)(x)
        deq.Equilibrium(cell, replay=False)(x)


def test_true_and_false_are_understood_wherever_replay_is_an_option():
    assert deq.EquilibriumOptions(replay=True) == deq.EquilibriumOptions(replay="automatic")
    assert deq.EquilibriumOptions(replay=False) == deq.EquilibriumOptions(replay="off")
    with pytest.raises(TypeError, match="replay is 1, must be True, False, 'automatic', 'off' or 'checked'"):
        deq.EquilibriumOptions(replay=1)
    model = deq.models.MonotoneDEQ(image_size=8, channels=[4], replay=True)
    with pytest.warns(UserWarning, match="replay=True, but z is evaluated step by step"):
        model(torch.randn(1, 3, 8, 8))

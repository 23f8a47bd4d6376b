"""On a GPU: values, gradients and replays against the CPU."""

import pytest
import torch

import deq
from conftest import TanhCell

available, reason = deq.cuda_status()
pytestmark = pytest.mark.skipif(not available, reason=reason)

EXACT = dict(forward=deq.Anderson(rtol=1e-12, max_evals=100), gradient=deq.Implicit(solver=deq.Broyden(rtol=1e-12)))


def value_and_gradients(layer, x):
    layer.zero_grad()
    eq = layer(x)
    (eq.z.square().sum() + deq.jacobian_penalty(eq, key=deq.ProbeKey(1))).backward()
    return [t.detach().cpu().clone() for t in (eq.z, *(p.grad for p in layer.parameters()))]


@pytest.mark.parametrize("replay", [False, True, "checked"])
def test_a_gpu_gives_what_the_cpu_gives(replay, cell, x):
    expected = value_and_gradients(deq.Equilibrium(cell, **EXACT), x)
    layer = deq.Equilibrium(cell, replay=replay, **EXACT).to("cuda")
    for _ in range(4):  # the second pass of a kind records, the next ones replay
        for found, wanted in zip(value_and_gradients(layer, x.cuda()), expected):
            torch.testing.assert_close(found, wanted)


def test_a_replay_runs_no_python_and_follows_the_parameters(cell, x):
    calls = 0

    def count(module, inputs):
        nonlocal calls
        calls += 1

    cell = cell.cuda()
    cell.w.register_forward_pre_hook(count)
    layer = deq.Equilibrium(cell, replay=True, **EXACT)
    x = x.cuda()
    for _ in range(3):
        layer(x).z.sum().backward()
    before = calls
    with torch.no_grad():
        cell.w.weight.mul_(0.5)
    replayed = value_and_gradients(layer, x)
    assert calls == before
    for found, wanted in zip(replayed, value_and_gradients(deq.Equilibrium(cell, replay=False, **EXACT), x)):
        torch.testing.assert_close(found, wanted)


def test_another_mode_is_another_recording(x):
    class Switched(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Linear(5, 5, dtype=torch.float64)

        def forward(self, z, x):
            return torch.tanh((0.2 if self.training else 0.4) * self.w(z) + x)

    layer = deq.Equilibrium(Switched().cuda(), replay=True, **EXACT)
    plain = deq.Equilibrium(layer.f, replay=False, **EXACT)
    x = x.cuda()
    for training in (True, True, True, False, False, False, True):
        layer.train(training)
        torch.testing.assert_close(layer(x).z, plain(x).z)

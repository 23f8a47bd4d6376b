"""What the authors' solvers gave on one problem: tests/fixtures/solvers.safetensors, which the C++ tests read too."""

import json
import os
import pathlib

import pytest
import torch
from safetensors import safe_open

import deq

FIXTURES = pathlib.Path(os.environ.get("DEQ_FIXTURES", pathlib.Path(__file__).parents[2] / "tests/fixtures"))


@pytest.fixture
def published():
    with safe_open(FIXTURES / "solvers.safetensors", "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        settings = {name: json.loads(text) for name, text in file.metadata().items()}
    return tensors, settings


def slab(tensor):
    return tensor.reshape(len(tensor), -1)


def assert_trace(report, skipped, published, reference, eps):
    """To the rounding of a residual, from what the authors' trace begins with to their stop: then it repeats the lowest."""
    relative, absolute = published[f"{reference}.rel_trace"], published[f"{reference}.abs_trace"]
    below = (relative < eps).nonzero()
    count = int(below[0]) + 1 if len(below) else len(relative)
    assert len(report.trace) == skipped + count
    found = torch.tensor([point.mean_absolute for point in report.trace[skipped:]], dtype=torch.float64)
    rounding = 8 * torch.finfo(torch.float64).eps * published["zstar"].norm().item()
    torch.testing.assert_close(found, absolute[:count], rtol=0, atol=rounding)


def of_problem(published, forward, gradient=deq.JacobianFree()):
    return deq.fixed_point(
        lambda z, x: torch.tanh(z @ published["W"].T + x), torch.zeros_like(published["x"]), published["x"],
        forward=forward, gradient=gradient, one_more_step=False,
    )  # fmt: skip


def test_anderson_makes_the_authors_steps(published):
    published, settings = published
    chosen = settings["anderson"]
    forward = deq.Anderson(
        memory=chosen["m"],
        ridge=chosen["lam"],
        ridge_scale="absolute",
        beta=chosen["beta"],
        restart_factor=1e300,
        rtol=chosen["eps"],
        scope="whole-batch",
        max_evals=chosen["threshold"],
        stagnation_window=0,
    )
    eq = of_problem(published, forward)
    assert_trace(eq.report, 2, published, "anderson", chosen["eps"])
    torch.testing.assert_close(eq.z.detach(), slab(published["anderson.result"]), rtol=1e-12, atol=1e-13)


def test_broyden_makes_the_authors_steps(published):
    published, settings = published
    chosen = settings["broyden"]
    steps = chosen["threshold"] + 1
    forward = deq.Broyden(
        memory=steps, rtol=chosen["eps"], scope="whole-batch", max_evals=steps, stagnation_window=0
    )
    eq = of_problem(published, forward)
    assert_trace(eq.report, 1, published, "broyden", chosen["eps"])
    torch.testing.assert_close(eq.z.detach(), slab(published["broyden.result"]), rtol=1e-12, atol=1e-13)


def test_the_jacobian_the_spectrum_and_the_gradient_are_the_authors(published):
    published, _ = published
    tight = deq.Broyden(rtol=1e-14, max_evals=80)
    published["x"].requires_grad_()
    eq = of_problem(published, tight, deq.Implicit(solver=tight))
    torch.testing.assert_close(eq.z.detach(), slab(published["zstar"]), rtol=0, atol=1e-12)
    torch.testing.assert_close(deq.dense_jacobian(eq), published["J"], rtol=1e-10, atol=1e-12)
    rho = torch.tensor(deq.spectral_radius(eq, tolerance=1e-10).rho, dtype=torch.float64)
    torch.testing.assert_close(rho, published["J_spectral_radius"].double(), rtol=1e-6, atol=0)
    probes = deq.frobenius_squared(eq, probes=4000, key=deq.ProbeKey(1))
    torch.testing.assert_close(probes, published["J_fro2"], rtol=0.1, atol=0)
    eq.z.backward(published["grad_in"])
    # x enters f where z does, by tanh alone: its gradient is u times the slope.
    slope = 1 - slab(published["zstar"]) ** 2
    torch.testing.assert_close(published["x"].grad, published["implicit_u"] * slope, rtol=1e-9, atol=1e-11)

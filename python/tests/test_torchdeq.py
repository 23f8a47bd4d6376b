"""get_deq: torchdeq's options, results and defaults."""

import warnings

import pytest
import torch

import deq

# The exact gradient of z = tanh(w z + x) is known.
EXACT = dict(ift=True, f_tol=1e-12, b_tol=1e-12, f_max_iter=100, b_max_iter=100)


def problem():
    w = torch.full((4,), 0.5, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 4, dtype=torch.float64)
    return w, x, torch.zeros_like(x)


@pytest.mark.parametrize("solver", ["fixed_point_iter", "anderson", "broyden"])
@pytest.mark.parametrize("mode", ["abs", "rel"])
def test_a_script_of_torchdeqs_gives_the_exact_gradient(solver, mode):
    w, x, z0 = problem()
    layer = deq.get_deq(f_solver=solver, b_solver=solver, f_stop_mode=mode, b_stop_mode=mode, **EXACT)
    z_out, info = layer(lambda z: torch.tanh(w * z + x), z0)
    z = z_out[-1]
    torch.testing.assert_close(z, torch.tanh(w * z + x))
    z.sum().backward()
    slope = 1 - z.detach() ** 2
    torch.testing.assert_close(w.grad, (slope * z.detach() / (1 - slope * w.detach())).sum(0))
    assert info["nstep"].shape == info["abs_lowest"].shape == info["rel_lowest"].shape == (3,)
    assert (info[f"{mode}_lowest"] <= 1e-12).all()
    assert info["sradius"].shape == (1,)


@pytest.mark.parametrize("solver, extra", [("fixed_point_iter", 0), ("anderson", 0), ("broyden", 1)])
def test_budgets_are_as_many_evaluations_as_torchdeq_makes(solver, extra):
    w, x, z0 = problem()
    calls, products = [], []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z.clone()

        @staticmethod
        def backward(ctx, g):
            products.append(1)
            return g

    def f(z):
        calls.append(1)
        return torch.tanh(w * Counted.apply(z) + x)

    layer = deq.get_deq(ift=True, f_solver=solver, b_solver=solver, f_tol=0.0, b_tol=0.0, f_max_iter=7, b_max_iter=6)
    z = layer(f, z0)[0][-1]
    assert len(calls) == 7 + extra + 1  # and once more for the graph
    z.sum().backward()
    # torchdeq's first product is that of zero, and needs none; the last one sends u to w and x.
    assert len(products) == 6 - 1 + extra + 1


def test_a_list_of_states_comes_back_as_a_list():
    w, x, z0 = problem()
    layer = deq.get_deq(f_solver="anderson", **EXACT)
    (z_out,), _ = layer(lambda a, b: (torch.tanh(w * b + x), torch.tanh(a - x)), [z0, z0])
    assert isinstance(z_out, list)
    torch.testing.assert_close(z_out[0], torch.tanh(w * z_out[1] + x))


def test_the_default_gradient_is_that_of_one_phantom_step():
    w, x, z0 = problem()
    with pytest.warns(UserWarning, match="one phantom step"):
        layer = deq.get_deq(f_tol=1e-12, f_max_iter=200)
    z = layer(lambda z: torch.tanh(w * z + x), z0)[0][-1]
    z.sum().backward()
    slope = 1 - z.detach() ** 2
    torch.testing.assert_close(w.grad, (slope * z.detach()).sum(0))


def test_eval_mode_has_a_budget_of_its_own_and_the_spectral_radius():
    w, x, z0 = problem()
    layer = deq.get_deq(ift=True, f_tol=0.0, f_max_iter=6, eval_factor=2).eval()
    z_out, info = layer(lambda z: torch.tanh(w * z + x), z0, sradius_mode=True)
    assert not z_out[-1].requires_grad
    assert (info["nstep"] == 12).all()
    slope = 1 - z_out[-1] ** 2
    torch.testing.assert_close(info["sradius"], (slope * w.detach()).amax(1).float(), rtol=1e-3, atol=1e-3)
    assert (layer(lambda z: torch.tanh(w * z + x), z0, solver_kwargs={"f_max_iter": 3})[1]["nstep"] == 3).all()


@pytest.mark.parametrize(
    "options, kind, message",
    [
        (dict(f_maxiter=3), TypeError, "get_deq has no option 'f_maxiter'"),
        (dict(n_states=2), deq.Error, "no equal of n_states"),
        (dict(ift=True, f_solver="newton"), deq.Error, "f_solver is 'newton', must be"),
        (dict(ift=True, f_stop_mode="max"), deq.Error, "f_stop_mode is 'max', must be 'abs' or 'rel'"),
        (dict(grad=[1, 2]), deq.Error, "grad is a list"),
    ],
)
def test_what_has_no_equal_is_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        deq.get_deq(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deq.get_deq({"ift": True, "f_solver": "anderson"})

"""Gradients: finite differences, torch's own through many steps, and each approximation's definition."""

import pytest
import torch
import torch.utils.checkpoint

import deq
from conftest import TanhCell

TIGHT = [
    deq.Picard(rtol=1e-13, max_evals=400),
    deq.Anderson(rtol=1e-13, max_evals=100),
    deq.Broyden(rtol=1e-13, max_evals=100),
    deq.LimitedBroyden(rtol=1e-13, max_evals=200),
    deq.NewtonKrylov(rtol=1e-13, max_evals=400),
]
FORWARD = deq.Anderson(rtol=1e-14, max_evals=200, stagnation_window=0)


def check(layer, x):
    """The layer's gradient for input and parameters against finite differences."""
    parameters = list(layer.parameters())

    def value(x, *_):
        return layer(x).z

    return torch.autograd.gradcheck(value, (x.requires_grad_(), *parameters), eps=1e-5, atol=1e-6)


@pytest.mark.parametrize("solver", TIGHT, ids=lambda solver: type(solver).__name__)
def test_the_implicit_gradient_is_that_of_finite_differences(solver, cell, x):
    assert check(deq.Equilibrium(cell, forward=FORWARD, gradient=deq.Implicit(solver=solver)), x)


def test_the_default_gradient_is_implicit(cell, x):
    assert isinstance(deq.Equilibrium(cell).options.gradient, deq.Implicit)


def test_many_terms_of_the_series_give_the_exact_gradient(cell, x):
    assert check(deq.Equilibrium(cell, forward=FORWARD, gradient=deq.Truncated(terms=80)), x)


def test_many_phantom_steps_give_the_exact_gradient(cell, x):
    assert check(deq.Equilibrium(cell, forward=FORWARD, gradient=deq.Phantom(steps=80, tau=0.9)), x)


def test_unrolled_steps_are_differentiated_exactly(cell, x):
    assert check(deq.Equilibrium(cell, gradient=deq.Unrolled(steps=4)), x)


def test_unrolled_steps_can_be_differentiated_twice(cell, x):
    layer = deq.Equilibrium(cell, gradient=deq.Unrolled(steps=3))
    assert torch.autograd.gradgradcheck(lambda x: layer(x).z, (x.requires_grad_(),))


def of_one_step(cell, x, u, z):
    """uᵀ ∂f/∂θ at z"""
    return torch.autograd.grad(cell(z, x), list(cell.parameters()), u)


@pytest.mark.parametrize("gradient, terms", [(deq.JacobianFree(), 0), (deq.Truncated(terms=2), 2)])
def test_an_approximation_is_what_it_says(gradient, terms, cell, x):
    layer = deq.Equilibrium(cell, forward=FORWARD, gradient=gradient)
    eq = layer(x)
    g = torch.randn_like(x)
    jacobian = deq.dense_jacobian(eq).detach()
    u = g
    for _ in range(terms):
        u = torch.einsum("bi,bij->bj", u, jacobian) + g
    expected = of_one_step(cell, x, u, eq.z.detach())
    found = torch.autograd.grad(eq.z, list(cell.parameters()), g)
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b)


def test_a_function_of_tensors_it_captured_is_differentiated():
    w = (0.3 * torch.randn(4, 4, dtype=torch.float64)).requires_grad_()
    z0 = torch.zeros(2, 4, dtype=torch.float64)
    x = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)

    def value(w, x):
        return deq.fixed_point(
            lambda z, x: torch.tanh(z @ w + x), z0, x, forward=FORWARD, gradient=deq.Implicit(solver=TIGHT[1])
        ).z

    assert torch.autograd.gradcheck(value, (w, x), eps=1e-5, atol=1e-6)


def test_every_part_of_a_state_carries_its_gradient(x):
    w = torch.nn.Parameter(0.2 * torch.randn(5, 5, dtype=x.dtype))

    def f(z, x):
        a, b = z
        return torch.tanh(b @ w + x), torch.tanh(a @ w.T - x)

    layer = deq.Equilibrium(
        f,
        [w],
        initial_state=lambda x: (torch.zeros_like(x), torch.zeros_like(x)),
        forward=FORWARD,
        gradient=deq.Implicit(solver=TIGHT[2]),
    )

    def value(x, w):
        return layer(x).state

    assert torch.autograd.gradcheck(value, (x.requires_grad_(), w), eps=1e-5, atol=1e-6)


def test_the_penaltys_gradient_is_that_of_the_dense_jacobian(cell, x):
    """At a fixed z*: the estimate is exact where the probes are the unit vectors' equals in mean."""
    layer = deq.Equilibrium(cell, forward=FORWARD)
    eq = layer(x)
    key = deq.ProbeKey(5)
    penalty = deq.jacobian_penalty(eq, probes=3, key=key)
    (found,) = torch.autograd.grad(penalty, cell.w.weight)

    z = eq.z.detach()

    def at(weight):
        with torch.no_grad():
            cell.w.weight.copy_(weight)
        z_leaf = z.clone().requires_grad_()
        point = deq.Equilibrium(cell, forward=deq.Picard(max_evals=1, rtol=0.0))(x, z0=z_leaf.detach())
        return deq.jacobian_penalty(point, probes=3, key=key).item()

    original = cell.w.weight.detach().clone()
    direction = torch.randn_like(original)
    step = 1e-6
    difference = (at(original + step * direction) - at(original - step * direction)) / (2 * step)
    assert (found * direction).sum().item() == pytest.approx(difference, rel=1e-5)


def test_the_implicit_gradient_can_be_differentiated_again(cell, x):
    gradient = deq.Implicit(solver=deq.Broyden(rtol=1e-13, max_evals=100), twice=True)
    layer = deq.Equilibrium(cell, forward=FORWARD, gradient=gradient)
    parameters = list(layer.parameters())

    def value(x, *_):
        return layer(x).z

    assert torch.autograd.gradgradcheck(value, (x.requires_grad_(), *parameters), eps=1e-5, atol=1e-6)


def test_a_second_derivative_of_the_implicit_gradient_is_refused(cell, x):
    eq = deq.Equilibrium(cell)(x.requires_grad_())
    with pytest.raises(RuntimeError, match="use Implicit with its option `twice`, or the Unrolled gradient"):
        torch.autograd.grad(eq.z.sum(), x, create_graph=True)


def test_a_tangent_is_that_of_finite_differences(cell, x):
    layer = deq.Equilibrium(cell, forward=FORWARD)
    weight, step = cell.w.weight, 1e-6
    moves = [(x.requires_grad_(), torch.randn_like(x)), (weight, torch.randn_like(weight))]
    found = deq.tangent(layer(x), moves, solver=deq.Broyden(rtol=1e-13, max_evals=100))
    assert found.report.converged

    def moved(by):
        with torch.no_grad():
            for tensor, along in moves:
                tensor.add_(along, alpha=by)
            z = layer(x).z
            for tensor, along in moves:
                tensor.sub_(along, alpha=by)
        return z

    expected = (moved(step) - moved(-step)) / (2 * step)
    torch.testing.assert_close(found.along.view_as(expected), expected, rtol=1e-5, atol=1e-8)


def test_a_tangent_says_what_is_wrong(cell, x):
    eq = deq.Equilibrium(cell)(x.requires_grad_())
    with pytest.raises(deq.Error, match="the same shape"):
        deq.tangent(eq, [(x, torch.ones(2))])


BROYDEN = deq.Broyden(rtol=1e-13, max_evals=60)


def gradients(layer, x, g):
    """Of the parameters and of x, and what the adjoint reports."""
    x = x.detach().requires_grad_()
    eq = layer(x)
    return torch.autograd.grad(eq.z, [*layer.parameters(), x], g), eq.adjoint


def test_shine_falls_back_to_the_jacobian_free_gradient(cell, x):
    g = torch.randn_like(x)
    found, report = gradients(deq.Equilibrium(cell, forward=BROYDEN, gradient=deq.Shine(fallback=1e-9)), x, g)
    expected, _ = gradients(deq.Equilibrium(cell, forward=BROYDEN, gradient=deq.JacobianFree()), x, g)
    for a, b in zip(found, expected):
        assert torch.equal(a, b)
    assert report.fallbacks == len(x)
    assert report.evaluations == 0
    assert f"{len(x)} fall-backs" in report.brief()
    assert report.to_dict()["fallbacks"] == len(x)


def test_a_refined_shine_is_exact(cell, x):
    layer = deq.Equilibrium(cell, forward=BROYDEN, gradient=deq.Shine(refinement=BROYDEN))
    assert check(layer, x)
    _, report = gradients(layer, x, torch.randn_like(x))
    assert report.converged


def test_shine_needs_a_forward_solve_by_broyden(cell):
    with pytest.raises(deq.Error, match="by broyden builds; this one, by anderson, builds none"):
        deq.Equilibrium(cell, forward=deq.Anderson(), gradient=deq.Shine())


def plain_reversible(cell, x, steps, beta):
    y = z = torch.zeros_like(x)
    for _ in range(steps):
        y = (1 - beta) * y + beta * cell(z, x)
        z = (1 - beta) * z + beta * cell(y, x)
    return z


@pytest.mark.parametrize("steps, beta", [(1, 0.5), (8, 0.5), (4, 0.8)])
def test_the_reversible_gradient_is_torchs_through_the_same_steps(steps, beta, cell, x):
    layer = deq.Equilibrium(cell, gradient=deq.Reversible(steps=steps, beta=beta))
    g = torch.randn_like(x)
    found, report = gradients(layer, x, g)
    x = x.detach().requires_grad_()
    expected = torch.autograd.grad(plain_reversible(cell, x, steps, beta), [*cell.parameters(), x], g)
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
    assert report.converged and report.evaluations == 2 * steps


def test_a_lost_way_back_is_raised_where_failures_are(cell, x):
    options = dict(forward=deq.Anderson(rtol=10.0), gradient=deq.Reversible(steps=40, beta=0.8))
    lost = deq.Equilibrium(cell, **options)(x)
    lost.z.sum().backward()
    assert lost.adjoint.status == "diverged" and lost.adjoint.max_relative > 1e-3
    loss = deq.Equilibrium(cell, on_failure="raise", **options)(x).z.sum()
    with pytest.raises(deq.ConvergenceError, match="the adjoint solve failed"):
        loss.backward()


def test_reversible_steps_reach_whatever_f_uses(x):
    """A tensor with a history of its own, used in every evaluation."""
    scale = torch.tensor(0.3, dtype=x.dtype, requires_grad=True)

    def value(scale, x):
        w = scale * torch.eye(x.shape[1], dtype=x.dtype)
        z0 = torch.zeros_like(x)
        return deq.fixed_point(lambda z, x: torch.tanh(z @ w + x), z0, x, gradient=deq.Reversible(steps=5)).z

    assert torch.autograd.gradcheck(value, (scale, x.requires_grad_()), eps=1e-5, atol=1e-6)


LINEARISED = [deq.Implicit(), deq.Implicit(twice=True), deq.Truncated(), deq.JacobianFree(), deq.Shine()]


@pytest.mark.parametrize("gradient", LINEARISED + [deq.Phantom(), deq.Unrolled()], ids=repr)
def test_a_pass_in_which_nothing_requires_a_gradient(gradient, x):
    cell = TanhCell(5).requires_grad_(False)
    head = torch.nn.Linear(5, 1, dtype=x.dtype)
    layer = deq.Equilibrium(cell, forward=deq.Broyden(), gradient=gradient)
    eq = layer(x)
    assert not eq.z.requires_grad
    head(eq.z).sum().backward()
    assert eq.adjoint.status == "not run"
    assert head.weight.grad.abs().sum() > 0
    penalty = deq.jacobian_penalty(eq, key=deq.ProbeKey(1))
    cell.requires_grad_()
    torch.testing.assert_close(penalty, deq.jacobian_penalty(layer(x), key=deq.ProbeKey(1)))
    assert not deq.fixed_point(lambda z, x: 0.5 * z + x, x, x, gradient=gradient, forward=deq.Broyden()).z.requires_grad


@pytest.mark.parametrize("gradient", LINEARISED, ids=repr)
def test_whatever_requires_a_gradient_gets_one(gradient, x):
    frozen = TanhCell(5).requires_grad_(False)
    options = dict(forward=deq.Broyden(), gradient=gradient)
    held = torch.randn(5, dtype=x.dtype, requires_grad=True)
    deq.Equilibrium(lambda z, x: frozen(z, x) * torch.sigmoid(held.square()), **options)(x).z.sum().backward()
    assert held.grad.abs().sum() > 0
    given = x.clone().requires_grad_()
    deq.Equilibrium(frozen, **options)(2 * given).z.sum().backward()
    assert given.grad.abs().sum() > 0


def test_a_checkpoint_inside_of_f_hides_its_parameters(cell, x):
    """The graph of a reentrant checkpoint shows what goes in and no parameter."""

    def f(z, x):
        return torch.utils.checkpoint.checkpoint(cell, z, x, use_reentrant=True)

    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):  # in the solve
        eq = deq.Equilibrium(f, gradient=deq.JacobianFree())(x)
    eq.z.sum().backward()
    assert cell.w.weight.grad.abs().sum() > 0

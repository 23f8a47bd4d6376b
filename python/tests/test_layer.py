"""The layer's values, reports and diagnostics, against plain torch."""

import gc
import weakref

import pytest
import torch

import deq

SOLVERS = [
    deq.Picard(rtol=1e-10, max_evals=200),
    deq.Anderson(rtol=1e-10),
    deq.Broyden(rtol=1e-10),
    deq.LimitedBroyden(rtol=1e-10, max_evals=100),
    deq.NewtonKrylov(rtol=1e-10),
]


def iterated(f, z, *inputs, steps=400):
    with torch.no_grad():
        for _ in range(steps):
            z = f(z, *inputs)
    return z


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_every_solver_finds_the_fixed_point(solver, cell, x):
    eq = deq.Equilibrium(cell, forward=solver)(x)
    torch.testing.assert_close(eq.z.detach(), iterated(cell, torch.zeros_like(x), x), rtol=1e-8, atol=1e-8)
    assert eq.report.converged
    assert eq.report.status == "converged"
    assert len(eq.report.samples) == len(x)
    assert eq.report.max_relative <= 1e-10


def test_a_function_a_module_and_fixed_point_agree(cell, x):
    options = dict(forward=deq.Anderson(rtol=1e-12))
    of_module = deq.Equilibrium(cell, **options)(x).z
    of_function = deq.Equilibrium(lambda z, x: cell(z, x), cell.parameters(), **options)(x).z
    plain = deq.fixed_point(cell, torch.zeros_like(x), x, **options).z
    assert torch.equal(of_module, of_function)
    assert torch.equal(of_module, plain)


def test_a_state_of_several_tensors_is_a_tuple(x):
    def f(z, x):
        a, b = z
        return 0.3 * torch.tanh(b.sum((1, 2))[:, None]) + 0.2 * a + x, 0.25 * b + a.mean(1)[:, None, None]

    z0 = torch.zeros(3, 5, dtype=x.dtype), torch.zeros(3, 2, 2, dtype=x.dtype)
    eq = deq.fixed_point(f, z0, x, forward=deq.Anderson(rtol=1e-12))
    a, b = iterated(f, z0, x)
    assert len(eq.state) == 2
    torch.testing.assert_close(eq.state[0], a)
    torch.testing.assert_close(eq.state[1], b)
    assert torch.equal(eq.z, eq.state[0])


class WideCell(deq.Cell):
    """A state wider than the input; the injection is computed once per solve."""

    def __init__(self):
        super().__init__()
        self.u = torch.nn.Linear(5, 7, dtype=torch.float64)
        self.w = torch.nn.Parameter(0.1 * torch.randn(7, 7, dtype=torch.float64))
        self.calls = {"prepare": 0, "step": 0}

    def initial_state(self, x):
        return x.new_zeros(len(x), 7)

    def prepare(self, x):
        self.calls["prepare"] += 1
        return self.u(x), None

    def step(self, z, injection, nothing):
        assert nothing is None
        self.calls["step"] += 1
        return torch.tanh(z @ self.w + injection)


def test_a_cell_is_prepared_once_a_solve(x):
    cell = WideCell()
    layer = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-12))
    with torch.no_grad():
        eq = layer(x)
    assert eq.z.shape == (3, 7)
    assert cell.calls == {"prepare": 1, "step": eq.report.evaluations}
    torch.testing.assert_close(eq.z, iterated(cell, cell.initial_state(x), x))


def test_initial_state_may_be_given_as_a_function(x):
    w = torch.randn(5, 4, dtype=x.dtype)
    layer = deq.Equilibrium(lambda z, x: torch.tanh(0.5 * z + x @ w), initial_state=lambda x: x.new_zeros(len(x), 4))
    assert layer(x).z.shape == (3, 4)


def test_a_start_at_the_solution_costs_one_evaluation(cell, x):
    layer = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-6))
    first = layer(x)
    assert first.report.evaluations > 1
    again = layer(x, z0=first.z.detach())
    assert again.report.evaluations == 1


def test_a_pass_may_have_a_plan_or_a_solver_of_its_own(cell, x):
    layer = deq.Equilibrium(cell)
    plan = deq.EquilibriumPlan(deq.EquilibriumOptions(forward=deq.Picard(max_evals=3, rtol=0.0)))
    assert layer(x, plan=plan).report.evaluations == 3
    assert layer(x, solver=deq.Solver(deq.Picard(max_evals=5, rtol=0.0))).report.evaluations == 5


def test_a_solver_may_be_used_by_itself():
    z0 = torch.zeros(4, 3, dtype=torch.float64)
    solution = deq.Solver(deq.Anderson(rtol=1e-12)).solve(lambda z: torch.cos(z), z0)
    torch.testing.assert_close(solution.z, torch.full_like(z0, 0.7390851332151607))
    assert solution.report.converged


def test_with_gradients_one_more_step_is_taken(cell, x):
    hasty = dict(forward=deq.Picard(max_evals=2), gradient=deq.Implicit())
    with torch.no_grad():
        z = deq.Equilibrium(cell, **hasty)(x).z
        further = cell(z, x)
    assert not torch.equal(z, further)
    assert torch.equal(deq.Equilibrium(cell, **hasty)(x).z, further)
    assert torch.equal(deq.Equilibrium(cell, one_more_step=False, **hasty)(x).z, z)


def test_a_callback_sees_every_iterate_and_may_stop(cell, x):
    seen = []

    def watch(progress):
        assert progress.z.shape == progress.f.shape == x.shape
        seen.append(progress.point.max_relative)

    eq = deq.Equilibrium(cell)(x, callback=watch)
    assert seen == [point.max_relative for point in eq.report.trace]

    stopped = deq.Equilibrium(cell)(x, callback=lambda progress: progress.point.evaluations < 2)
    assert stopped.report.evaluations == 2
    assert stopped.report.status == "stopped by the caller"


def test_reports_print_and_become_dicts(cell, x):
    layer = deq.Equilibrium(cell)
    eq = layer(x)
    assert eq.adjoint.status == "not run"
    eq.z.sum().backward()
    assert eq.adjoint.converged
    assert str(eq.report).startswith("converged after")
    assert "converged" in repr(eq) and "converged" in repr(eq.report)
    as_dict = eq.report.to_dict()
    assert as_dict["status"] == "converged"
    assert as_dict["evaluations"] == eq.report.evaluations == as_dict["trace"][-1]["evaluations"]
    assert [sample["relative"] for sample in as_dict["samples"]] == [s.relative for s in eq.report.samples]


def test_a_failed_solve_is_reported_or_raised(cell, x):
    eq = deq.Equilibrium(cell, forward=deq.Picard(max_evals=2))(x)
    assert not eq.report.converged
    assert "raise max_evals" in eq.report.advice
    strict = deq.Equilibrium(cell, forward=deq.Picard(max_evals=2), on_failure="raise")
    with pytest.raises(deq.ConvergenceError, match="the forward solve failed: out of evaluations"):
        strict(x)


def test_a_failed_adjoint_solve_is_raised_by_backward(cell, x):
    gradient = deq.Implicit(solver=deq.Picard(max_evals=1, rtol=1e-12))
    eq = deq.Equilibrium(cell, gradient=gradient, on_failure="raise")(x)
    with pytest.raises(deq.ConvergenceError, match="the adjoint solve failed: out of evaluations"):
        eq.z.sum().backward()
    assert issubclass(deq.ConvergenceError, deq.Error)


def test_the_jacobian_and_its_spectrum_are_those_of_f(cell, x):
    eq = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-12))(x)
    slope = 1 - eq.z.detach() ** 2
    expected = slope[:, :, None] * cell.w.weight.detach()
    torch.testing.assert_close(deq.dense_jacobian(eq).detach(), expected)
    radius = deq.spectral_radius(eq, tolerance=1e-10)
    largest = torch.linalg.eigvals(expected).abs().amax(1)
    torch.testing.assert_close(torch.tensor(radius.rho, dtype=torch.float64), largest)
    assert radius.mean() == pytest.approx(largest.mean().item())
    u = torch.randn_like(x)
    torch.testing.assert_close(eq.linearization().vjp(u), torch.einsum("bi,bij->bj", u, expected))


def test_the_penalty_is_the_mean_square_of_the_jacobian(cell, x):
    layer = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-12))
    eq = layer(x)
    exact = (deq.dense_jacobian(eq) ** 2).sum((1, 2))
    estimate = deq.frobenius_squared(eq, probes=4000, distribution="rademacher")
    torch.testing.assert_close(estimate, exact.detach(), rtol=0.1, atol=0)
    assert deq.frobenius_squared(eq, probes=1, key=deq.ProbeKey(3)).equal(
        deq.frobenius_squared(eq, probes=1, key=deq.ProbeKey(3))
    )
    generator = torch.Generator().manual_seed(1)
    penalty = deq.jacobian_penalty(eq, probes=4000, generator=generator)
    torch.testing.assert_close(penalty.detach(), exact.detach().mean() / 5, rtol=0.1, atol=0)
    penalty.backward()
    assert cell.w.weight.grad.abs().sum() > 0


def test_the_spectral_penalty_is_the_gain_of_turned_probes(cell, x):
    eq = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-12))(x)
    dense = deq.dense_jacobian(eq).detach()
    key = deq.ProbeKey(3)

    def square_of_power(k):
        """‖εJᵏ‖² of the probe that the key draws: a matrix as J, by a layer around a linear map."""
        power = torch.linalg.matrix_power(dense, k)
        linear = deq.fixed_point(lambda z: torch.einsum("bi,bji->bj", z, power), torch.zeros_like(x))
        return deq.frobenius_squared(linear, key=key)

    for steps in (0, 1, 4):
        gain = deq.squared_gain(eq, steps=steps, key=key)
        torch.testing.assert_close(gain, square_of_power(steps + 1) / square_of_power(steps))
    settled = deq.squared_gain(eq, steps=300, key=key)
    assert (settled <= torch.linalg.matrix_norm(dense, 2) ** 2 * (1 + 1e-9)).all()
    penalty = deq.spectral_penalty(eq, steps=4, key=key)
    torch.testing.assert_close(penalty.detach(), deq.squared_gain(eq, steps=4, key=key).mean())
    penalty.backward()
    assert cell.w.weight.grad.abs().sum() > 0
    with pytest.raises(deq.Error, match="power probes: steps = -1, must be ≥ 0"):
        deq.spectral_penalty(eq, steps=-1)


def test_start_noise_moves_the_start_in_training_only(cell, x):
    layer = deq.Equilibrium(cell, start_noise=0.3)
    starts = []

    def begin(progress):
        starts.append(progress.z.clone())
        return False

    torch.manual_seed(5)
    layer(x, callback=begin)
    torch.manual_seed(5)
    torch.testing.assert_close(starts[-1], 0.3 * torch.randn_like(x))
    layer.eval()(x, callback=begin)
    assert starts[-1].abs().max() == 0


def test_the_path_distance_sees_whether_a_start_matters(cell, x):
    solver = deq.Anderson(rtol=1e-12, max_evals=100)
    with torch.no_grad():
        eq = deq.Equilibrium(cell, forward=solver).eval()(x)
        assert deq.path_distance(eq, solver).max() < 1e-9
        # tanh(3z) has an equilibrium on each side of zero, and one number per sample finds one of them.
        both = deq.Equilibrium(lambda z, x: torch.tanh(3 * z), initial_state=torch.ones_like).eval()(torch.ones(200, 1))
    generator = torch.Generator().manual_seed(1)
    distance = deq.path_distance(both, deq.Picard(rtol=1e-6, max_evals=100), generator=generator)
    assert ((distance < 1e-3) | ((distance - 2).abs() < 1e-3)).all()
    assert 50 < (distance > 1).sum() < 150
    with pytest.raises(TypeError, match="eq is a Tensor, must be what a layer returned"):
        deq.path_distance(x, solver)


def test_a_predicted_start_learns_by_its_distance(cell, x):
    layer = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-12, max_evals=100))
    start = torch.randn_like(x, requires_grad=True)
    eq = layer(x, z0=start)
    found = eq.z.detach()
    expected = (start - found).square().sum(1) / found.square().sum(1)
    torch.testing.assert_close(deq.start_distance(eq), expected)
    deq.start_distance(eq).sum().backward()
    torch.testing.assert_close(start.grad, 2 * (start - found).detach() / found.square().sum(1, keepdim=True))
    assert all(parameter.grad is None for parameter in cell.parameters())
    with pytest.raises(TypeError, match="eq is a Tensor, must be what a layer returned"):
        deq.start_distance(x)


@pytest.mark.parametrize("detached", [True, False])
def test_warm_starts_of_a_training_do_not_pile_up(cell, x, detached):
    layer = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-6))
    optimiser = torch.optim.SGD(cell.parameters(), lr=1e-3)
    seen, z0 = [], None
    for _ in range(6):
        given = x.clone().requires_grad_()
        seen.append(weakref.ref(given))
        eq = layer(given, z0=z0)
        optimiser.zero_grad()
        eq.z.square().mean().backward()
        optimiser.step()
        z0 = eq.z.detach() if detached else eq.z
    del given
    gc.collect()
    # A weak reference to a tensor lives as long as some graph holds the tensor.
    assert [one() is not None for one in seen[:4]] == [False] * 4
    assert seen[5]() is not None


def test_a_cell_may_predict_its_start(x):
    class Predicting(deq.Cell):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Linear(x.shape[1], x.shape[1], dtype=x.dtype)
            self.start = torch.nn.Linear(x.shape[1], x.shape[1], dtype=x.dtype)

        def initial_state(self, x):
            return self.start(x)

        def step(self, z, x):
            return torch.tanh(0.3 * self.w(z) + x)

    cell = Predicting()
    layer = deq.Equilibrium(cell)
    layer(x).z.sum().backward()
    assert cell.start.weight.grad is None
    deq.start_distance(layer(x)).sum().backward()
    assert cell.start.weight.grad.abs().max() > 0


def test_the_distance_of_a_step_has_the_gradients_of_the_step(cell, x):
    layer = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-12, max_evals=100))
    eq = layer(x)
    found = eq.z.detach()
    for start in (None, torch.randn_like(x)):
        distance = deq.step_distance(eq, start)
        stepped = cell(torch.zeros_like(x) if start is None else start, x)
        expected = (stepped - found).square().sum(1) / found.square().sum(1)
        torch.testing.assert_close(distance, expected)
        parameters = list(cell.parameters())
        for ours, plain in zip(
            torch.autograd.grad(distance.sum(), parameters), torch.autograd.grad(expected.sum(), parameters)
        ):
            torch.testing.assert_close(ours, plain)
    with pytest.raises(deq.Error, match="has shape"):
        deq.step_distance(eq, x[:, :1])
    with pytest.raises(TypeError, match="part of start 0 is a int, must be a tensor"):
        deq.step_distance(eq, [3])


def test_linsleys_penalty_is_that_of_column_sums(cell, x):
    eq = deq.Equilibrium(cell, forward=deq.Anderson(rtol=1e-12))(x)
    sums = deq.dense_jacobian(eq).detach().sum(1)
    expected = (sums - 0.1).clamp(min=0).norm(dim=1).mean()
    torch.testing.assert_close(deq.linsley_penalty(eq, 0.1).detach(), expected)


def test_a_layer_that_its_own_function_holds_is_collected():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(0.1 * torch.randn(4, 4))
            self.layer = deq.Equilibrium(self.f, [self.w])

        def f(self, z, x):
            return torch.tanh(z @ self.w + x)

    model = Model()
    model.layer(torch.randn(2, 4)).z.sum().backward()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_an_equilibrium_outlives_its_layer():
    """What a graph still needs is not collected with the layer."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(0.1 * torch.randn(4, 4))
            self.layer = deq.Equilibrium(self.f, [self.w])

        def f(self, z, x):
            return torch.tanh(z @ self.w + x)

    with torch.no_grad():
        eq = Model().layer(torch.randn(2, 4))
    gc.collect()
    assert deq.dense_jacobian(eq).shape == (2, 4, 4)


def test_variational_dropout_holds_for_a_solve():
    class Dropping(deq.Cell):
        def __init__(self):
            super().__init__()
            self.drop = deq.VariationalDropout(0.5)

        def prepare(self, x):
            return x, self.drop.mask(x.shape, like=x)

        def step(self, z, x, mask):
            return torch.tanh(0.5 * z + x) * (1 if mask is None else mask)

    layer = deq.Equilibrium(Dropping(), forward=deq.Anderson(rtol=1e-5))
    x = torch.randn(64, 32)
    eq = layer(x)
    assert eq.report.converged
    assert 0.4 < (eq.z == 0).float().mean() < 0.6
    assert (layer.eval()(x).z == 0).sum() == 0

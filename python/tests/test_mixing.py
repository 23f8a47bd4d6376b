"""A learnt mixing of Anderson's steps, against the formulas in plain torch."""

import copy
import pickle

import pytest
import torch

import deq

MEMORY, EVALUATIONS = 3, 5


class Problem:
    """z = tanh(W z + x) for samples of shape [2, 3], with its equilibrium."""

    def __init__(self):
        w = torch.randn(6, 6, dtype=torch.float64)
        self.w = (0.9 * w / torch.linalg.eigvals(w).abs().max()).requires_grad_()
        self.x = torch.randn(4, 6, dtype=torch.float64)
        self.z0 = torch.zeros(4, 2, 3, dtype=torch.float64)
        with torch.no_grad():
            self.z_star = self.z0
            for _ in range(600):
                self.z_star = self(self.z_star)

    def __call__(self, z):
        return torch.tanh(z.flatten(1) @ self.w.T + self.x).reshape(z.shape)


@pytest.fixture
def problem():
    return Problem()


def drawn_mixing():
    mixing = deq.LearntMixing(MEMORY, hidden=7).double()
    with torch.no_grad():
        for parameter in mixing.parameters():
            parameter.normal_(0, 0.3)
    return mixing


def solver_of(mixing, **options):
    return deq.Anderson(memory=MEMORY, mixing=mixing, rtol=0, max_evals=EVALUATIONS, restart_factor=1e9, **options)


def predicted(state, gram, alpha, step):
    """α and β of one step, gram [B, n, n] and alpha [B, n] the newest first, from a mixing's state_dict."""
    batch, n = alpha.shape
    norms = gram.diagonal(dim1=1, dim2=2).sqrt()

    def padded(values):
        return torch.nn.functional.pad(values, (0, MEMORY - values.shape[1]))

    pairs = torch.zeros(batch, MEMORY, MEMORY, dtype=gram.dtype)
    pairs[:, :n, :n] = gram / norms[:, :, None] / norms[:, None, :]
    below = [pairs[:, i, j] for i in range(MEMORY) for j in range(i)]
    ratios = padded(torch.log(norms / norms[:, :1]))[:, 1:]
    known = padded(torch.ones_like(alpha))
    age = torch.full((batch, 1), 1 / step, dtype=gram.dtype)
    x = torch.cat([torch.stack(below, 1), ratios, padded(alpha / (1 + alpha.abs())), known, age], 1)
    hidden = torch.tanh(x @ state["features.weight"].T + state["features.bias"])
    c = torch.tanh(hidden @ state["correction.weight"].T + state["correction.bias"])
    return alpha + c[:, :n] - c[:, :n].mean(1, keepdim=True), 1 + c[:, MEMORY]


def iterates(f, z, state, ridge=1e-8):
    """z₁, z₂, … and α − least squares of each step, with f on slabs."""
    images, residuals = [], []
    for step in range(1, EVALUATIONS):
        images, residuals = [f(z), *images][:MEMORY], [f(z) - z, *residuals][:MEMORY]
        g = torch.stack(residuals, 1)
        gram = g @ g.transpose(1, 2)
        mean = gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
        unit = torch.eye(g.shape[1], dtype=g.dtype)
        plain = torch.linalg.solve(gram + ridge * mean * unit, torch.ones_like(gram[:, 0]))
        plain = plain / plain.sum(1, keepdim=True)
        alpha, beta = predicted(state, gram, plain, step)
        z = torch.einsum("bi,bid->bd", alpha, torch.stack(images, 1) + (beta[:, None, None] - 1) * g)
        yield z, alpha - plain


def test_a_new_one_is_anderson_to_the_bit(problem):
    plain = solver_of(None, beta=0.8)
    for dtype in (torch.float32, torch.float64):
        start, seen = problem.z0.flatten(1).to(dtype), []
        for options in (plain, plain.replace(mixing=deq.LearntMixing(MEMORY))):
            f = lambda z: problem(z.double()).to(dtype)  # noqa: E731
            seen.append(deq.Solver(options).solve(f, start).z)
        assert torch.equal(*seen)


def test_the_solvers_iterates_are_the_formula(problem):
    mixing, seen = drawn_mixing(), []
    deq.Solver(solver_of(mixing)).solve(problem, problem.z0.flatten(1), lambda progress: seen.append(progress.z.clone()))
    with torch.no_grad():
        wanted = [z for z, _ in iterates(problem, problem.z0.flatten(1), mixing.state_dict())]
    assert len(seen) == EVALUATIONS
    for z, expected in zip(seen[1:], wanted):
        torch.testing.assert_close(z, expected, rtol=1e-6, atol=1e-7)


def test_the_loss_and_its_gradients_are_those_of_autograd(problem):
    mixing = drawn_mixing()
    loss = deq.mixing_loss(problem, problem.z0, problem.z_star, solver_of(mixing), closeness=0.2)
    loss.backward()
    assert problem.w.grad is None

    state = {name: value.detach().requires_grad_() for name, value in mixing.named_parameters()}
    start, goal, expected = problem.z0.flatten(1), problem.z_star.flatten(1), 0
    for k, (z, off) in enumerate(iterates(problem, start, state), 1):
        distance = ((z - goal).norm(dim=1) / (start - goal).norm(dim=1)).mean()
        expected = expected + k * distance / (1 + 2 + 3 + 4) + 0.2 * off.square().sum(1).mean() / (EVALUATIONS - 1)
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=0)
    wanted = torch.autograd.grad(expected, list(state.values()))
    for (name, parameter), gradient in zip(mixing.named_parameters(), wanted):
        assert gradient.abs().max() > 1e-5, name
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-6, atol=1e-9)


def test_training_changes_the_solves_of_a_layer(problem):
    mixing = deq.LearntMixing(MEMORY, hidden=7)
    layer = deq.Equilibrium(
        lambda z, x: torch.tanh(z @ problem.w.T + x), [torch.nn.Parameter(problem.w)], forward=solver_of(mixing)
    )
    with torch.no_grad():
        before = layer(problem.x).z
        mixing.load_state_dict(drawn_mixing().state_dict())
        after = layer(problem.x).z
    assert not torch.equal(before, after)
    assert layer.options.forward.mixing is mixing


def test_options_with_a_mixing_can_be_printed_copied_pickled_and_compared():
    mixing = drawn_mixing()
    mixing.correction.bias.requires_grad_(False)
    options = solver_of(mixing)
    assert "mixing=LearntMixing(memory=3, hidden=7)" in repr(options)
    assert options == options.replace(beta=1.0) and options != options.replace(mixing=None)
    for made in (copy.deepcopy(options), pickle.loads(pickle.dumps(options))):
        assert made.mixing is not mixing
        assert not made.mixing.correction.bias.requires_grad
        assert all(torch.equal(a, b) for a, b in zip(made.mixing.parameters(), mixing.parameters()))
        assert made.mixing.correction.weight.dtype == torch.float64


def test_states_may_be_single_numbers():
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)
    z_star = torch.zeros_like(x)
    for _ in range(200):
        z_star = torch.tanh(0.8 * z_star + x)
    solver = solver_of(drawn_mixing())

    def flat(z):
        assert z.shape == x.shape
        return torch.tanh(0.8 * z + x)

    def deep(z):
        return torch.tanh(0.8 * z + x[:, None])

    of_numbers = deq.mixing_loss(flat, torch.zeros_like(x), z_star, solver)
    assert of_numbers.item() > 0
    assert of_numbers.item() == deq.mixing_loss(deep, torch.zeros_like(x)[:, None], z_star[:, None], solver).item()


def test_what_it_was_not_made_for_is_refused(problem, tmp_path):
    mixing = deq.LearntMixing(MEMORY)
    with pytest.raises(deq.Error, match="anderson: mixing was made for memory = 3, memory is 6"):
        deq.Anderson(mixing=mixing)
    with pytest.raises(TypeError, match="Broyden has no option 'mixing'"):
        deq.Broyden(mixing=mixing)
    with pytest.raises(TypeError, match="mixing is 3, must be a LearntMixing or None"):
        deq.Anderson(mixing=3)
    with pytest.raises(deq.Error, match="learnt mixing: hidden = 0, must be ≥ 1"):
        deq.LearntMixing(hidden=0)
    with pytest.raises(TypeError, match="solver is a Broyden, must be an Anderson with a mixing"):
        deq.mixing_loss(problem, problem.z0, problem.z_star, deq.Broyden())
    with pytest.raises(TypeError, match="z0 is a list, must be a tensor"):
        deq.mixing_loss(problem, [0.0], problem.z_star, solver_of(mixing))
    with pytest.raises(TypeError, match="z_star is a float, must be a tensor"):
        deq.mixing_loss(problem, problem.z0, 1.0, solver_of(mixing))
    with pytest.raises(deq.Error, match=r"z0 is a single number, must be a tensor \[B, ...\]"):
        deq.mixing_loss(problem, torch.tensor(0.0), problem.z_star, solver_of(mixing))
    with pytest.raises(deq.Error, match="the solver has no mixing that could be trained"):
        deq.mixing_loss(problem, problem.z0, problem.z_star, deq.Anderson())
    with pytest.raises(deq.Error, match=r"f returned \[4, 6\], must return a tensor like z0, \[4, 2, 3\]"):
        deq.mixing_loss(lambda z: problem(z).flatten(1), problem.z0, problem.z_star, solver_of(mixing))
    model = deq.models.MDEQ(
        channels=[8, 8], groups=4, head_channels=[4, 4], final_channels=8, forward=solver_of(mixing)
    )
    with pytest.raises(deq.Error, match="save_pretrained writes no LearntMixing: save its state_dict"):
        model.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()

"""A compiled f inside of a layer. torch.compile around one is in test_places.py."""

import copy
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch

import deq
from conftest import TanhCell

EXACT = dict(forward=deq.Anderson(rtol=1e-12, max_evals=100), gradient=deq.Implicit(solver=deq.Broyden(rtol=1e-12)))
GRADIENTS = [
    deq.Implicit(solver=deq.Broyden(rtol=1e-12)),
    deq.Truncated(terms=4),
    deq.JacobianFree(),
    deq.Phantom(steps=3),
    deq.Unrolled(steps=3),
    deq.Reversible(steps=3),
]


@pytest.fixture(autouse=True)
def as_in_a_new_process():
    """Nothing compiled, and torch's own setting: the layer has to change it."""
    import torch._functorch.config as config

    torch._dynamo.reset()
    config.donated_buffer = True
    yield
    torch._dynamo.reset()


def gradients(layer, x):
    layer.zero_grad()
    layer(x).z.square().sum().backward()
    return [p.grad.clone() for p in layer.parameters()]


def assert_all_close(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b)


def inputs(batch):
    return torch.randn(batch, 5, dtype=torch.float64)


def trained_outside(f):
    """As a function of its own first, by which torch decides what its graph may overwrite."""
    f(inputs(3).requires_grad_(), inputs(3)).square().sum().backward()


@pytest.mark.parametrize("dynamic", [None, True], ids=["automatic", "dynamic"])
@pytest.mark.parametrize("gradient", GRADIENTS, ids=lambda gradient: type(gradient).__name__)
def test_every_gradient_at_several_batch_sizes(gradient, dynamic, cell):
    options = dict(EXACT, gradient=gradient)
    plain = deq.Equilibrium(cell, **options)
    compiled = deq.Equilibrium(torch.compile(cell, backend="aot_eager", dynamic=dynamic), **options)
    for batch in (4, 4, 3):  # the last one of an epoch is smaller
        x = inputs(batch)
        assert_all_close(gradients(compiled, x), gradients(plain, x))


@pytest.mark.parametrize("batch", [3, 4])
def test_an_f_that_was_trained_before(batch, cell):
    compiled = torch.compile(cell, backend="aot_eager")
    trained_outside(compiled)
    x = inputs(batch)
    assert_all_close(gradients(deq.Equilibrium(compiled, **EXACT), x), gradients(deq.Equilibrium(cell, **EXACT), x))


def test_the_penalty_is_refused_and_the_spectrum_is_not(cell, x):
    eq = deq.Equilibrium(torch.compile(cell, backend="aot_eager"), **EXACT)(x)
    with pytest.raises(deq.Error, match="give the layer f itself, not torch.compile"):
        deq.jacobian_penalty(eq)
    plain = deq.Equilibrium(cell, **EXACT)(x)
    assert deq.spectral_radius(eq).mean() == pytest.approx(deq.spectral_radius(plain).mean(), rel=1e-3)


def hidden(compiled):
    """Where nobody can see that it was compiled."""
    holder = {"f": compiled}
    return lambda z, x: 1.0 * holder["f"](z, x)


@pytest.mark.parametrize("around", [lambda f: lambda z, x: f(z, x), hidden], ids=["closure", "hidden"])
@pytest.mark.parametrize("before", [False, True], ids=["new", "trained before"])
def test_a_function_around_a_compiled_one(around, before, cell, x):
    compiled = torch.compile(cell, backend="aot_eager")
    if before:
        trained_outside(compiled)
    layer = deq.Equilibrium(around(compiled), cell.parameters(), **EXACT)
    assert_all_close(gradients(layer, x), gradients(deq.Equilibrium(cell, **EXACT), x))
    with pytest.raises(deq.Error, match="give the layer f itself, not torch.compile"):
        deq.jacobian_penalty(layer(x))


@pytest.mark.filterwarnings("ignore:f_tol stops every sample")
def test_fixed_point_and_get_deq(cell, x):
    compiled = torch.compile(cell, backend="aot_eager")
    expected = gradients(deq.Equilibrium(cell, **EXACT), x)
    layer = deq.get_deq(ift=True, f_solver="anderson", b_solver="broyden", f_max_iter=100, f_tol=1e-12, b_tol=1e-12)
    for solve in (
        lambda: deq.fixed_point(compiled, torch.zeros_like(x), x, **EXACT).z,
        lambda: layer(lambda z: compiled(z, x), torch.zeros_like(x))[0][-1],
    ):
        cell.zero_grad()
        solve().square().sum().backward()
        assert_all_close([p.grad for p in cell.parameters()], expected)


class Wide(deq.Cell):
    """Its state has another shape than its input, and its context is not the input."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(0.3 * torch.randn(7, 7, dtype=torch.float64) / 7**0.5)
        self.u = torch.nn.Linear(5, 7, dtype=torch.float64)
        self.prepared = 0

    def initial_state(self, x):
        return x.new_zeros(len(x), 7)

    def prepare(self, x):
        self.prepared += 1
        return self.u(x)

    def step(self, z, injection):
        return torch.tanh(z @ self.w + injection)


def test_a_compiled_cell_keeps_its_start_and_its_context(x):
    cell = Wide()
    compiled = deq.Equilibrium(torch.compile(cell, backend="aot_eager"), **EXACT)
    found = gradients(compiled, x)
    assert cell.prepared == 1
    assert_all_close(found, gradients(deq.Equilibrium(cell, **EXACT), x))
    twin = copy.deepcopy(compiled)
    with torch.no_grad():
        twin.f._orig_mod.w.zero_()
    assert_all_close(gradients(compiled, x), found)
    assert (twin(x).z != compiled(x).z).any()


def test_a_cell_with_a_compiled_step(x):
    class Compiled(Wide):
        step = torch.compile(Wide.step, backend="aot_eager")

    cell = Compiled()
    plain = Wide()
    plain.load_state_dict(cell.state_dict())
    layer = deq.Equilibrium(cell, **EXACT)
    assert_all_close(gradients(layer, x), gradients(deq.Equilibrium(plain, **EXACT), x))
    with pytest.raises(deq.Error, match="give the layer f itself, not torch.compile"):
        deq.jacobian_penalty(layer(x))


def test_what_was_kept_from_the_compiler_is_not_taken_for_compiled(cell, x):
    eq = deq.Equilibrium(torch.compiler.disable(cell), **EXACT)(x)
    assert deq.jacobian_penalty(eq).requires_grad
    encoder = torch.compile(torch.nn.Linear(5, 5, dtype=torch.float64), backend="aot_eager")
    eq = deq.Equilibrium(cell, **EXACT)(encoder(x))
    (eq.z.sum() + deq.jacobian_penalty(eq)).backward()


@pytest.mark.parametrize("replay", [True, "checked"])
def test_graphs_inside_of_a_recording_are_refused(replay, cell):
    with pytest.raises(deq.Error, match="mode='reduce-overhead'.*replay=True does the same"):
        deq.Equilibrium(torch.compile(cell, mode="reduce-overhead"), replay=replay)
    deq.Equilibrium(torch.compile(cell, mode="reduce-overhead"))
    deq.Equilibrium(torch.compile(cell), replay=replay)


INDUCTOR = """
    import torch, deq
    from conftest import TanhCell

    torch.manual_seed(0)
    cell, x = TanhCell(5), torch.randn(3, 5, dtype=torch.float64)
    options = dict(forward=deq.Anderson(rtol=1e-12, max_evals=100), gradient=deq.Implicit(solver=deq.Broyden(rtol=1e-12)))

    def gradients(f):
        layer = deq.Equilibrium(f, **options)
        layer.zero_grad()
        layer(x).z.square().sum().backward()
        return [p.grad.clone() for p in layer.parameters()]

    expected = gradients(cell)
    compiled = torch.compile(cell)
    compiled(x.clone().requires_grad_(), x).square().sum().backward()  # what it saved may be overwritten from here on
    for found, wanted in zip(gradients(compiled), expected, strict=True):
        torch.testing.assert_close(found, wanted)
    print("agrees")
"""


def test_inductors_code_for_the_cpu():
    """In a process of its own: it keeps compilers waiting."""
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("torch.compile needs a C++ compiler, and there is none")
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INDUCTOR)],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=__file__.rsplit("/", 1)[0],
    )
    assert result.stdout == "agrees\n", result.stderr

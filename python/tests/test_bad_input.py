"""One clear exception for what cannot work."""

import pytest
import torch

import deq


@pytest.fixture
def x():
    return torch.randn(3, 5)


@pytest.mark.parametrize(
    "f, kind, message",
    [
        (lambda z, x: (z + x)[:, :4], deq.Error, r"f returned the shape \[3, 4\], but z has the shape \[3, 5\]"),
        (lambda z, x: (z, x), deq.Error, "f returned 2 tensors, but the state has 1"),
        (lambda z, x: None, TypeError, "f returned a NoneType, must return a tensor or a tuple of tensors"),
        (lambda z, x: 0.0, TypeError, "f returned a float, must return a tensor"),
        (lambda z, x: z.numpy(), TypeError, "f returned a ndarray"),
        (lambda z, x: (z.numpy(),), TypeError, "f returned a tuple that holds a ndarray"),
        (lambda z, x: (None,), deq.Error, "f returned None, must return a tensor like z"),
        (lambda z, x: z.to(torch.int64), deq.Error, "f returned Long, must return floating-point numbers"),
        (lambda z, x: z.double(), deq.Error, r"f returned Double, but z is Float: f must return z's type, as result.to"),
        (lambda z, x: z.to("meta"), deq.Error, "f returned a tensor on meta, but z is on cpu: move the layer"),
        (lambda z, x: z * float("nan"), deq.Error, r"f\(z0\) is not finite for any sample: look for NaN"),
    ],
)
def test_what_f_returns(f, kind, message, x):
    with torch.no_grad(), pytest.raises(kind, match=message):
        deq.Equilibrium(f)(x)
    with torch.no_grad(), pytest.raises(kind, match=message):
        deq.fixed_point(f, torch.zeros_like(x), x)


def test_a_part_of_a_state_is_named(x):
    with pytest.raises(deq.Error, match=r"f returned the shape \[3, 5\] as part 1, but z has the shape \[3, 2\]"):
        deq.fixed_point(lambda z: (z[0], z[0]), (x, x[:, :2]))


def test_fewer_bits_are_fs_own_business(x):
    with torch.no_grad():
        eq = deq.Equilibrium(lambda z, x: torch.tanh(0.5 * z + x).bfloat16(), forward=deq.Anderson(rtol=1e-2))(x)
    assert eq.z.dtype == torch.float32
    with torch.no_grad(), pytest.raises(deq.Error, match="f returned Float, but z is Double"):
        deq.Equilibrium(lambda z, x: z.float())(x.double())


def test_a_start_on_another_device(x):
    layer = deq.Equilibrium(torch.nn.Bilinear(5, 5, 5))
    with pytest.raises(deq.Error, match=r"z0 is on meta, but all else is on cpu: move it there, as z0.to\(x.device\) does"):
        layer(x, z0=x.to("meta"))
    with pytest.raises(deq.Error, match="z0 is on cpu, but another part of it is on meta: move it there"):
        deq.Equilibrium(lambda z: z)(z0=(x, x.to("meta")))
    with pytest.raises(deq.Error, match="z0 is on meta, but all else is on cpu"):
        deq.fixed_point(lambda z, x: z + x, x.to("meta"), x)


def test_nan_in_one_sample_is_reported_and_leaves_the_others_alone(x):
    x[1, 2] = float("nan")
    eq = deq.Equilibrium(lambda z, x: torch.tanh(0.5 * z + x))(x)
    assert [sample.status for sample in eq.report.samples] == ["converged", "non-finite values", "converged"]
    with pytest.raises(deq.ConvergenceError, match="NaN or infinity"):
        deq.Equilibrium(lambda z, x: torch.tanh(0.5 * z + x), on_failure="raise")(x)


def test_a_parameter_that_nobody_named(x):
    w, u = torch.nn.Linear(5, 5), torch.nn.Linear(5, 5)

    def f(z, x):
        return torch.tanh(0.3 * w(z) + u(x))

    layer = deq.Equilibrium(f, w.parameters())
    with pytest.raises(deq.Error, match=r"f uses parameters that this layer does not know, of shape .* name them in"):
        layer(x)
    with torch.no_grad():
        layer(x)  # nothing is trained here
    deq.Equilibrium(f, [*w.parameters(), *u.parameters()])(x)


@pytest.mark.parametrize(
    "gradient",
    [deq.Implicit(), deq.JacobianFree(), deq.Shine(), deq.Phantom(), deq.Unrolled(), deq.Reversible()],
    ids=lambda gradient: type(gradient).__name__,
)
def test_inputs_with_a_graph_of_their_own_are_no_parameters_of_f(gradient, x):
    encoder = torch.nn.Linear(5, 5)
    layer = deq.Equilibrium(lambda z, x: torch.tanh(0.3 * z + x), forward=deq.Broyden(), gradient=gradient)
    layer(encoder(x)).z.sum().backward()
    assert encoder.weight.grad.abs().sum() > 0


def test_what_is_no_parameter_is_not_taken_for_one(x):
    with pytest.raises(TypeError, match=r"parameters\[0\] is a Tensor, must be a torch.nn.Parameter"):
        deq.Equilibrium(lambda z, x: z, [torch.randn(3, requires_grad=True)])
    with pytest.raises(TypeError, match="must be a list of torch.nn.Parameter"):
        deq.Equilibrium(lambda z, x: z, torch.nn.Parameter(torch.randn(3)))


@pytest.mark.parametrize(
    "use, kind, message",
    [
        (lambda x: deq.Equilibrium(3), TypeError, "f is a int, must be a function"),
        (lambda x: deq.fixed_point(3, x), TypeError, "f is a int, must be a function"),
        (lambda x: deq.fixed_point(torch.tanh, ()), deq.Error, "z0 holds no tensor"),
        (lambda x: deq.Equilibrium(torch.tanh)(), deq.Error, "give z0 or initial_state"),
        (lambda x: deq.Equilibrium(torch.add)(x.numpy()), TypeError, "input 0 is a ndarray, must be a tensor"),
        (lambda x: deq.Equilibrium(torch.add)(x, z0=[1.0]), TypeError, "part of z0 0 is a float"),
        (lambda x: deq.Equilibrium(torch.add)(x.half()), deq.Error, "must be float32 or float64"),
        (lambda x: deq.Equilibrium(torch.add)(x.long()), deq.Error, "must be float32 or float64"),
        (lambda x: deq.Equilibrium(torch.add, max_evals=3), TypeError, "has no option 'max_evals'"),
        (lambda x: deq.Equilibrium(torch.add, on_failure="throw"), TypeError, "must be 'report' or 'raise'"),
        (lambda x: deq.Equilibrium(torch.add, replay="yes"), TypeError, "'automatic', 'off' or 'checked'"),
        (lambda x: deq.jacobian_penalty(x), TypeError, "got a Tensor, must be what a layer returned"),
        (lambda x: deq.Solver("anderson"), TypeError, "options is 'anderson', must be Picard"),
        (lambda x: deq.Equilibrium(deq.Cell())(x), NotImplementedError, r"Cell needs a step\(z, \*context\)"),
        (lambda x: deq.VariationalDropout(1.0), deq.Error, "rate = 1, must be in"),
        (lambda x: deq.Equilibrium(torch.add)(x, solver=deq.Broyden()), TypeError, "solver is a Broyden, must be a deq.Solver"),
        (lambda x: deq.Equilibrium(torch.add)(x, plan=deq.EquilibriumOptions()), TypeError, "must be a deq.EquilibriumPlan"),
        (lambda x: deq.Equilibrium(torch.add)(x, callback=True), TypeError, "callback is a bool, must be a function"),
        (lambda x: deq.Equilibrium(torch.add)(x, callback=lambda p: "go"), TypeError, "callback returned a str, must return"),
        (lambda x: deq.fixed_point(torch.tanh, x, callback=lambda p: x), TypeError, "callback returned a Tensor, must return"),
        (lambda x: deq.Equilibrium(torch.add)(x, callback=lambda p: p.z.zero_().any()), deq.Error, "callback wrote into progress.z"),
        (lambda x: deq.fixed_point(torch.tanh, x, callback=lambda p: p.f.mul_(2).any()), deq.Error, "callback wrote into"),
        (lambda x: deq.fixed_point(torch.tanh, x, callback=3), TypeError, "callback is a int, must be a function"),
        (lambda x: deq.EquilibriumPlan(forward=deq.Broyden()), TypeError, r"EquilibriumPlan\(EquilibriumOptions\(forward=…\)\)"),
        (lambda x: deq.EquilibriumPlan(deq.Broyden()), TypeError, "options is Broyden.*, must be EquilibriumOptions"),
        (lambda x: deq.Equilibrium(torch.add, initial_state=x), TypeError, "initial_state is a Tensor, must be a function"),
        (lambda x: deq.Equilibrium(torch.add, torch.nn.Linear(5, 5)), TypeError, "parameters is a Linear, must be a list"),
        (lambda x: deq.Equilibrium(torch.add)(x.long()), deq.Error, "torch.int64 .* give z0 or initial_state"),
        (lambda x: deq.tangent(deq.Equilibrium(torch.add)(x), (x, x)), TypeError, r"moves\[0\] is a Tensor, must be a pair"),
        (lambda x: deq.tangent(deq.Equilibrium(torch.add)(x), [(x, 1.0)]), TypeError, r"moves\[0\] is a tuple, must be a pair"),
    ],
)
def test_misuse(use, kind, message, x):
    with pytest.raises(kind, match=message):
        use(x)

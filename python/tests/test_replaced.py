"""What is put in the place of a layer's attributes and parameters is what solves, or is refused."""

import copy
import functools
import pickle

import pytest
import torch

import deq
from conftest import TanhCell

EXACT = dict(forward=deq.Anderson(rtol=1e-12, max_evals=100), gradient=deq.Implicit(solver=deq.Broyden(rtol=1e-12)))


def test_another_f(cell, x):
    layer = deq.Equilibrium(cell, **EXACT)
    before = layer(x).z
    other = TanhCell(5, scale=0.3)
    layer.f = other
    eq = layer(x)
    assert torch.equal(eq.z, deq.Equilibrium(other, **EXACT)(x).z) and not torch.equal(eq.z, before)
    eq.z.sum().backward()
    assert other.w.weight.grad is not None and cell.w.weight.grad is None
    layer._modules["f"] = cell  # as torch's quantisation puts modules in
    assert torch.equal(layer(x).z, before)


def test_another_f_is_looked_at_as_the_first_was(cell, x):
    layer = deq.Equilibrium(cell)
    layer(x)
    layer.initial_state = x
    with pytest.raises(TypeError, match="initial_state is a Tensor, must be a function of the inputs"):
        layer(x)
    layer.initial_state = None
    layer = deq.Equilibrium(lambda z, x: 0.5 * z + x)
    layer(x)
    layer.f = lambda z, x: cell(z, x)
    with pytest.raises(deq.Error, match="f uses parameters that this layer does not know"):
        layer(x)
    layer.f = 3
    with pytest.raises(TypeError, match="f is a int, must be a function"):
        layer(x)


def test_other_options(cell, x):
    layer = deq.Equilibrium(cell, replay=True, **EXACT)
    layer.options = layer.options.replace(forward=deq.Picard(max_evals=3, rtol=0.0))
    with pytest.warns(UserWarning, match="replay=True"):
        assert layer(x).report.evaluations == 3
        assert copy.deepcopy(layer)(x).report.evaluations == 3
    assert layer.replay is True, "a promise about f is none of the options"
    layer.options = layer.options.replace(replay="off")
    assert layer.replay == "off"
    layer.replay = "checked"
    assert layer.options.replay == "checked"
    with pytest.raises(TypeError, match="options is a Anderson, must be EquilibriumOptions"):
        layer.options = deq.Anderson()
    with pytest.raises(TypeError, match="'automatic', 'off' or 'checked'"):
        layer.replay = "yes"
    assert layer.replay == layer.options.replay == "checked"


def test_another_start(cell, x):
    layer = deq.Equilibrium(cell, **EXACT)
    solution = layer(x).z.detach()
    assert layer(x).report.evaluations > 1
    layer.initial_state = lambda x: solution
    assert layer(x).report.evaluations == 1


def test_a_stream_of_a_layer_that_was_changed(cell, x):
    layer = deq.Equilibrium(cell).eval()
    stream = deq.Stream(layer)
    stream.next(x)
    layer.f = TanhCell(5).eval()
    with pytest.raises(deq.Error, match="make a new deq.Stream"):
        stream.next(x)
    with torch.no_grad():
        assert torch.equal(deq.Stream(layer).next(x).z, layer(x).z)


W = torch.nn.Linear(5, 5, dtype=torch.float64)


def uses_a_global(z, x):
    return torch.tanh(0.3 * W(z) + x)


class Callable:
    def __init__(self, w):
        self.w = w

    def __call__(self, z, x):
        return torch.tanh(0.3 * self.w(z) + x)


FUNCTIONS = {
    "function": lambda: uses_a_global,
    "partial": lambda: functools.partial(uses_a_global),
    "object": lambda: Callable(W),
}


@pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)
def test_parameters_that_a_function_would_not_see(make, x):
    layer = deq.Equilibrium(make(), W.parameters())
    layer(x)
    zeros = {name: torch.zeros_like(tensor) for name, tensor in layer.named_parameters()}
    with pytest.raises(deq.Error, match="its function would go on using the old one: make f a torch.nn.Module"):
        torch.func.functional_call(layer, zeros, (x,))
    layer(x)  # as it was
    layer.load_state_dict(layer.state_dict())
    layer.double()(x)
    layer.load_state_dict(zeros, assign=True)
    with torch.no_grad(), pytest.raises(deq.Error, match="a parameter of this layer was replaced"):
        layer(x)


@pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)
def test_copies_whose_function_would_use_the_old_parameters(make, x):
    layer = deq.Equilibrium(make(), W.parameters())
    for copied in (copy.deepcopy, pickle.dumps, torch.optim.swa_utils.AveragedModel):
        with pytest.raises(deq.Error, match="cannot be copied with its parameters"):
            copied(layer)


class Model(torch.nn.Module):
    """Its layer's f is a method of its own, or a function that holds its module."""

    def __init__(self, way):
        super().__init__()
        self.w = torch.nn.Linear(5, 5, dtype=torch.float64)
        w = self.w
        f, parameters = {
            "method": (self.step, ()),
            "method, named": (self.step, w.parameters()),
            "closure": (lambda z, x: torch.tanh(0.3 * w(z) + x), w.parameters()),
        }[way]
        self.layer = deq.Equilibrium(f, parameters, **EXACT)

    def step(self, z, x):
        return torch.tanh(0.3 * self.w(z) + x)

    def forward(self, x):
        return self.layer(x).z


@pytest.mark.parametrize("way", ["method", "method, named", "closure"])
def test_parameters_that_are_replaced_where_f_reads_them(way, x):
    model = Model(way)
    model(x)
    other = {name: 0.5 * tensor.detach() for name, tensor in model.named_parameters()}
    expected = Model(way)
    expected.load_state_dict(other, strict=False)
    assert torch.equal(torch.func.functional_call(model, other, (x,)), expected(x))


def test_a_method_of_a_module_uses_the_modules_parameters(x):
    model = Model("method")
    assert list(model.state_dict()) == ["w.weight", "w.bias"], "nothing is stored twice"
    model(x).sum().backward()
    assert model.w.weight.grad.abs().sum() > 0
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(x), model(x))
        with torch.no_grad():
            twin.w.weight.zero_()
        assert not torch.equal(twin(x), model(x))
    layer = deq.Equilibrium(model.step, model.w.parameters())
    assert [id(p) for p in layer._used_parameters()] == [id(p) for p in model.w.parameters()], "each once"
    with pytest.raises(deq.Error, match="z0 is on meta"):
        layer(z0=x.to("meta"))


def test_a_method_of_a_module_that_uses_others(x):
    class Foreign(torch.nn.Module):
        def step(self, z, x):
            return uses_a_global(z, x)

    with pytest.raises(deq.Error, match="f uses parameters that this layer does not know"):
        deq.Equilibrium(Foreign().step)(x)

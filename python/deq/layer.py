"""The layer z* = f(z*; x) around any function or module of torch's."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from typing import Any, Callable, ContextManager, Iterable, Iterator, Optional, Sequence, Union

import torch
from torch import Tensor

from deq import _core
from deq._core import Equilibrated, EquilibriumOptions, EquilibriumPlan, Progress, Solver

State = Union[Tensor, Sequence[Tensor]]
Callback = Callable[[Progress], Optional[bool]]
Replay = Union[bool, str]


class Cell(torch.nn.Module):
    """One layer f of an equilibrium model, split into what depends on z and what does not."""

    def initial_state(self, *inputs: Tensor) -> State:
        """z₀ for these inputs: its shapes are the state's shapes. By default zeros like the first input."""
        return torch.zeros_like(_first(inputs)).detach()

    def prepare(self, *inputs: Tensor) -> State:
        """All of f that is constant during a solve (injections, masks, normalised weights): a tensor, or a tuple
        of tensors and Nones. Runs once per solve, on the tape. By default the inputs themselves."""
        return inputs

    def step(self, z: Any, *context: Any) -> State:
        """f(z), with what prepare() returned. z is a tensor, or a tuple where the state has several."""
        raise NotImplementedError(f"{type(self).__name__} needs a step(z, *context)")

    def replay_key(self) -> Optional[Sequence[float]]:
        """By a key the cell promises that prepare() and step() depend on their arguments, on its modules,
        parameters and buffers, and on these numbers, on nothing else; it may then be replayed on a GPU."""
        return None

    def forward(self, z: Any, *inputs: Tensor) -> State:
        """f(z; inputs) as one function."""
        return self.step(z, *_as_tuple(self.prepare(*inputs)))


class Equilibrium(torch.nn.Module):
    """The layer z* = f(z*; x).

    `f` is a function of (z, *inputs), a torch.nn.Module with such a forward, or a `Cell`. z is a tensor [B, ...]
    like the first input, or what `initial_state(*inputs)` or `z0` say: a tensor or a tuple of tensors. A module
    brings its parameters along; those that a function uses are named in `parameters`.

    Options are those of `EquilibriumOptions`: forward, gradient, on_failure, float32_evals, replay. `replay=True`
    promises for any f what a `Cell` promises by its `replay_key`.

    A layer keeps nothing of a pass: it may be called many times in one graph, and from several threads.
    """

    def __init__(
        self,
        f: Callable[..., State],
        parameters: Iterable[torch.nn.Parameter] = (),
        *,
        initial_state: Optional[Callable[..., State]] = None,
        replay: Replay = "automatic",
        **options: Any,
    ) -> None:
        super().__init__()
        if not callable(f):
            raise TypeError(f"f is a {type(f).__name__}, must be a function of (z, *inputs) or a torch.nn.Module")
        self.f = f
        self.named = torch.nn.ParameterList(_checked_parameters(parameters))
        self.initial_state = initial_state
        self.replay = replay
        self.options = EquilibriumOptions(replay=_replay_option(replay), **options)
        self._begin()

    def _begin(self) -> None:
        f = self.f
        is_cell = isinstance(f, Cell)
        initial_state = self.initial_state or (f.initial_state if is_cell else None)
        self._layer = _core.Layer(
            f.step if is_cell else f,
            f.prepare if is_cell else None,
            initial_state,
            _ReplayKey(f, self.replay) if self.replay is not False else None,
            self.options,
        )
        self._parameters_are_known = False

    def forward(
        self,
        *inputs: Tensor,
        z0: Optional[State] = None,
        plan: Optional[EquilibriumPlan] = None,
        solver: Optional[Solver] = None,
        callback: Optional[Callback] = None,
    ) -> Equilibrated:
        """Solves for these inputs, from `z0` if it is given. A `plan` or a `solver` takes the place of the layer's
        own for this pass. `callback` is called after each iterate; False stops the solve."""
        if "torch._dynamo" in sys.modules:
            return _outside_of_compilers()(self, inputs, z0, plan, solver, callback)
        return self._pass(inputs, z0, plan, solver, callback)

    def _pass(
        self,
        inputs: tuple[Tensor, ...],
        z0: Optional[State],
        plan: Optional[EquilibriumPlan],
        solver: Optional[Solver],
        callback: Optional[Callback],
    ) -> Equilibrated:
        _require_tensors(inputs, "input")
        start = () if z0 is None else _as_tuple(z0)
        _require_tensors(start, "part of z0")
        self._show_leaves(inputs)
        is_compiled = _is_compiled(self.f)
        with _products_of_compiled_graphs() if is_compiled else contextlib.nullcontext():
            eq = self._layer.forward(inputs, start, plan, solver, callback, self.training)
        _require_finite(eq.report)
        if is_compiled:
            eq.f_is_compiled = True
        if not self._parameters_are_known and torch.is_grad_enabled():
            self._require_known_parameters(eq, inputs + tuple(start))
            self._parameters_are_known = True
        return eq

    def _show_leaves(self, inputs: tuple[Tensor, ...]) -> None:
        """Recordings read the parameters where they are now; only GPUs record."""
        if self.replay is False or not any(x.is_cuda for x in inputs):
            return
        self._layer.set_leaves(list(self.parameters()), list(self.buffers()))

    def _require_known_parameters(self, eq: Equilibrated, inputs: tuple[Tensor, ...]) -> None:
        leaves = _core.other_leaves(eq, inputs, list(self.parameters()))
        unnamed = [leaf for leaf in leaves if isinstance(leaf, torch.nn.Parameter)]
        if not unnamed:
            return
        shapes = ", ".join(str(list(leaf.shape)) for leaf in unnamed)
        raise _core.Error(
            f"f uses parameters that this layer does not know, of shape {shapes}: name them in parameters=[...], make f "
            "a torch.nn.Module that has them, or pass what is computed outside as an input"
        )

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.to_dict().items())

    def __getstate__(self) -> dict[str, Any]:
        """For copy.deepcopy and pickle."""
        if len(self.named) > 0 and isinstance(self.f, types.FunctionType):
            raise _core.Error(
                "a layer around a plain function cannot be copied with its parameters: the copy's function would go on "
                "using the old ones; make f a torch.nn.Module that has them"
            )
        state = self.__dict__.copy()
        del state["_layer"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._begin()


def fixed_point(
    f: Callable[..., State],
    z0: State,
    *inputs: Tensor,
    callback: Optional[Callback] = None,
    **options: Any,
) -> Equilibrated:
    """The fixed point z* = f(z*, *inputs) of any function, solved from z0 and differentiated as the options say:
    those of `EquilibriumOptions`. Gradients reach whatever f uses. f is evaluated, never replayed."""
    if not callable(f):
        raise TypeError(f"f is a {type(f).__name__}, must be a function of (z, *inputs)")
    start = _as_tuple(z0)
    _require_tensors(start, "part of z0")
    _require_tensors(inputs, "input")
    if not start:
        raise _core.Error("fixed_point: z0 holds no tensor")
    layer = _core.Layer(f, None, None, None, EquilibriumOptions(**options))
    eq = layer.forward(inputs, start, None, None, callback, True)
    _require_finite(eq.report)
    return eq


class _ReplayKey:
    """What a recording of f depends on besides tensors. Holds f, as the compiled layer does."""

    def __init__(self, f: Callable[..., State], replay: Replay) -> None:
        self.f = f
        self.is_promised = replay is not True and replay != "checked"

    def __call__(self) -> Optional[list[float]]:
        key = self.f.replay_key() if isinstance(self.f, Cell) else None
        if key is None:
            if self.is_promised:
                return None
            key = ()
        modes = [float(m.training) for m in self.f.modules()] if isinstance(self.f, torch.nn.Module) else []
        return modes + [float(number) for number in key]


def _replay_option(replay: Replay) -> str:
    if isinstance(replay, bool):
        return "automatic" if replay else "off"
    return replay


def _first(inputs: tuple[Tensor, ...]) -> Tensor:
    if not inputs:
        raise _core.Error("without an input nothing says what z looks like: give z0 or initial_state")
    return inputs[0]


def _as_tuple(state: State) -> tuple[Tensor, ...]:
    return (state,) if isinstance(state, Tensor) else tuple(state)


def _require_tensors(values: Sequence[Any], what: str) -> None:
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise TypeError(f"{what} {i} is a {type(value).__name__}, must be a tensor")


def _checked_parameters(parameters: Iterable[torch.nn.Parameter]) -> Iterator[torch.nn.Parameter]:
    if isinstance(parameters, Tensor):
        raise TypeError("parameters is a tensor, must be a list of torch.nn.Parameter")
    for i, parameter in enumerate(parameters):
        if not isinstance(parameter, torch.nn.Parameter):
            raise TypeError(f"parameters[{i}] is a {type(parameter).__name__}, must be a torch.nn.Parameter")
        yield parameter


def _require_finite(report: _core.Report) -> None:
    """A solve that is lost at its first evaluation has nothing to report on."""
    if report.status != "non-finite values":
        return
    if all(sample.status == report.status and sample.evaluations <= 1 for sample in report.samples):
        raise _core.Error(
            "f(z0) is not finite for any sample: look for NaN or infinity in the inputs, in the parameters, or in f"
        )


def _is_compiled(f: Callable[..., State]) -> bool:
    """Whether f, or a part of it that can be seen, was given to torch.compile."""
    if "torch._dynamo" not in sys.modules:
        return False
    parts = [f, *(f.modules() if isinstance(f, torch.nn.Module) else ())]
    return any(
        hasattr(part, "_torchdynamo_orig_callable")
        or "_orig_mod" in getattr(part, "_modules", ())
        or getattr(part, "_compiled_call_impl", None) is not None
        for part in parts
    )


def _products_of_compiled_graphs() -> ContextManager[Any]:
    """The adjoint solve takes many products of one graph, so none may give its memory away."""
    import torch._functorch.config as config

    return config.patch(donated_buffer=False)


@functools.lru_cache(maxsize=None)
def _outside_of_compilers() -> Callable[..., Equilibrated]:
    """Passes that torch.compile does not look into. Only for those who have loaded its 4 seconds of imports."""
    return torch.compiler.disable(Equilibrium._pass)

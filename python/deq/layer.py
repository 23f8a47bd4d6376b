"""The layer z* = f(z*; x) around any function or module of torch's."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Literal, Optional, Sequence, TypedDict, TypeVar, Union

import torch
from torch import Tensor
from typing_extensions import Unpack

from deq import _core
from deq._compilers import (
    inside_of_compiled,
    is_compiled,
    keep_memory,
    may_give_memory_away,
    outside_of_compilers,
    uses_graphs_of_its_own,
    visible_parts,
)
from deq._core import Equilibrated, EquilibriumOptions, EquilibriumPlan, Progress, Solver
from deq._own_kernels import with_own_kernels
from deq._pass_checks import refuse_transforms, require_callback, require_plan, require_solver
from deq._replay import ReplayNotice

if TYPE_CHECKING:  # names that only the stubs have
    from deq._core import GradientOptions, OnFailure, SolverOptions

Result = TypeVar("Result")
State = Union[Tensor, Sequence[Tensor]]
Context = Union[Tensor, Sequence[Optional[Tensor]]]
Callback = Callable[[Progress], Optional[bool]]
Replay = Union[bool, Literal["automatic", "off", "checked"]]


class LayerOptions(TypedDict, total=False):
    """Those of `EquilibriumOptions`, as keywords of a layer."""

    forward: SolverOptions
    gradient: GradientOptions
    one_more_step: bool
    on_failure: OnFailure
    float32_evals: int
    start_noise: float


def _overridden_freely(method: Callable[..., Result]) -> Callable[..., Result]:
    """A method whose overrides have arguments of their own: to type checkers it takes any."""
    return method


class Cell(torch.nn.Module):
    """One layer f of an equilibrium model, split into what depends on z and what does not."""

    @_overridden_freely
    def initial_state(self, *inputs: Tensor) -> State:
        """z₀ for these inputs: its shapes are the state's shapes. By default zeros like the first input."""
        return torch.zeros_like(_first(inputs)).detach()

    @_overridden_freely
    def prepare(self, *inputs: Tensor) -> Context:
        """All of f that is constant during a solve (injections, masks, normalised weights): a tensor, or a tuple
        of tensors and Nones. Runs once per solve, on the tape. By default the inputs themselves."""
        return inputs

    @_overridden_freely
    def step(self, z: Any, *context: Any) -> State:
        """f(z), with what prepare() returned. z is a tensor, or a tuple where the state has several."""
        raise NotImplementedError(f"{type(self).__name__} needs a step(z, *context)")

    def replay_key(self) -> Optional[Sequence[float]]:
        """By a key the cell promises that prepare() and step() depend on their arguments, on its modules,
        parameters and buffers, and on these numbers, on nothing else; it may then be replayed on a GPU."""
        return None

    def forward(self, z: Any, *inputs: Tensor) -> State:
        """f(z; inputs) as one function."""
        prepared = self.prepare(*inputs)
        return self.step(z, *((prepared,) if isinstance(prepared, Tensor) else prepared))


class Equilibrium(torch.nn.Module):
    """The layer z* = f(z*; x).

    `f` is a function of (z, *inputs), a torch.nn.Module with such a forward, or a `Cell`. z is a tensor [B, ...]
    like the first input, or what `initial_state(*inputs)` or `z0` say: a tensor or a tuple of tensors. A module
    brings its parameters along; those that a function uses are named in `parameters`. A method of a module uses those of
    the module, which keeps them: a model may give a layer of its own one of its methods.

    Options are those of `EquilibriumOptions`: forward, gradient, one_more_step, on_failure, float32_evals, replay,
    start_noise.
    `replay=True` promises for any f what a `Cell` promises by its `replay_key`.

    A layer keeps nothing of a pass: it may be called many times in one graph, and from several threads.
    """

    def __init__(
        self,
        f: Callable[..., State],
        parameters: Iterable[torch.nn.Parameter] = (),
        *,
        initial_state: Optional[Callable[..., State]] = None,
        replay: Replay = "automatic",
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__()
        self.f = f
        self.named = torch.nn.ParameterList(_checked_parameters(parameters))
        self._named_at_first = tuple(self.named)
        self.initial_state = initial_state
        self._replay: Replay = replay
        self._options = EquilibriumOptions(replay=_replay_option(replay), **options)
        self._begin()

    @property
    def options(self) -> EquilibriumOptions:
        """Others may be put in their place, as may another f or initial_state: the next pass has them."""
        return self._options

    @options.setter
    def options(self, options: EquilibriumOptions) -> None:
        if not isinstance(options, EquilibriumOptions):
            raise TypeError(f"options is a {type(options).__name__}, must be EquilibriumOptions")
        if options.replay != self._options.replay:
            self._replay = options.replay
        self._options = options

    @property
    def replay(self) -> Replay:
        """As it was given: `True` is a promise, and options know "automatic" only."""
        return self._replay

    @replay.setter
    def replay(self, replay: Replay) -> None:
        self._options = self._options.replace(replay=_replay_option(replay))
        self._replay = replay

    def _begin(self) -> None:
        f = self.f
        if not callable(f):
            raise TypeError(f"f is a {type(f).__name__}, must be a function of (z, *inputs) or a torch.nn.Module")
        if self.initial_state is not None and not callable(self.initial_state):
            raise TypeError(
                f"initial_state is a {type(self.initial_state).__name__}, must be a function of the inputs; a start itself is "
                "given to the call, as layer(x, z0=start)"
            )
        self._made_of = self._ingredients()
        inside = inside_of_compiled(f)
        is_compiled_cell = isinstance(inside, Cell)
        cell = inside if is_compiled_cell else f if isinstance(f, Cell) else None
        compiled_step = f.dynamo_ctx(inside.step) if is_compiled_cell else None  # type: ignore[attr-defined]
        self._replay_key = _ReplayKey(cell or f, self.replay) if _may_replay(cell or f, self.replay) else None
        if self._replay_key is not None and uses_graphs_of_its_own(f):
            raise _core.Error(_TWO_RECORDINGS)
        step = compiled_step or (cell.step if cell else f)
        if self._replay_key is not None and not is_compiled(f):
            step = with_own_kernels(step)
        self._layer = _core.Layer(
            step,
            cell.prepare if cell else None,
            self.initial_state or (cell.initial_state if cell else None),
            self._replay_key,
            self.options,
        )
        self._starts_like_its_input = cell is None and self.initial_state is None
        self._parameters_are_known = False
        self._is_compiled: Optional[bool] = None  # not looked at yet
        self._notice = ReplayNotice(self.replay)

    def _ingredients(self) -> tuple[Any, ...]:
        return self.f, self.initial_state, self._options, self._replay

    def _current(self) -> _core.Layer:
        """The compiled layer, made anew where an attribute that it was made of is another one now."""
        if any(now is not then for now, then in zip(self._ingredients(), self._made_of)):
            self._begin()
        return self._layer

    @outside_of_compilers
    def forward(
        self,
        *inputs: Tensor,
        z0: Optional[State] = None,
        plan: Optional[EquilibriumPlan] = None,
        solver: Optional[Solver] = None,
        callback: Optional[Callback] = None,
    ) -> Equilibrated:
        """Solves for these inputs, from `z0` if it is given: it is kept with its graph for `start_distance`, so detach one
        whose graph is of no use. A `plan` or a `solver` takes the place of the layer's own for this pass. `callback` is called
        after each iterate; False stops the solve."""
        start = () if z0 is None else _as_tuple(z0)
        require_plan(plan)
        require_solver(solver)
        require_callback(callback)
        run = functools.partial(self._current().forward, inputs, start, plan, solver, callback, self.training)
        return self._passed(inputs, start, run)

    def _passed(self, inputs: tuple[Tensor, ...], start: tuple[Tensor, ...], run: Callable[[], Equilibrated]) -> Equilibrated:
        """What `run` gives for these inputs, with all that Python sees to around a pass."""
        refuse_transforms()
        _require_tensors(inputs, "input")
        _require_tensors(start, "part of z0")
        _require_one_device(start, (*inputs, *self._used_parameters()) if start else ())
        if not start and self._starts_like_its_input:
            _first(inputs)
        self._require_named()
        self._show_leaves()
        if self._is_compiled is None:
            self._is_compiled = is_compiled(self.f)
        eq = _solved(
            run,
            (*inputs, *start),
            self.f,
            compiled=self._is_compiled,
            looks_inside=not self._parameters_are_known,
        )
        self._notice.look_at(eq)
        if not self._parameters_are_known and torch.is_grad_enabled():
            self._require_known_parameters(eq, inputs + start)
            self._parameters_are_known = True
        return eq

    def _used_parameters(self) -> list[Tensor]:
        """The layer's own, and those of the module whose method f is, each once."""
        owner = _owner(self.f)
        return _each_once(self.parameters(), owner.parameters() if owner is not None else ())

    def _require_named(self) -> None:
        """A function goes on using the tensors that it was written with, whatever takes their place here; where it reads
        them from a module, it meets the new ones."""
        replaced = [now for now, then in zip(self.named._parameters.values(), self._named_at_first) if now is not then]
        if not replaced:
            return
        met = {id(parameter) for module in _modules_seen_by(self.f) for parameter in module.parameters()}
        if any(id(parameter) not in met for parameter in replaced):
            raise _core.Error(
                "a parameter of this layer was replaced, as torch.func.functional_call and load_state_dict(assign=True) do, "
                "but its function would go on using the old one: make f a torch.nn.Module that has it"
            )

    def _show_leaves(self) -> None:
        """Recordings read parameters where they are now."""
        if self._replay_key is not None and self._replay_key() is not None:
            owner = _owner(self.f)
            buffers = _each_once(self.buffers(), owner.buffers() if owner is not None else ())
            self._layer.set_leaves(self._used_parameters(), buffers)

    def _require_known_parameters(self, eq: Equilibrated, inputs: tuple[Tensor, ...]) -> None:
        leaves = _core.other_leaves(eq, inputs, self._used_parameters())
        unnamed = [leaf for leaf in leaves if isinstance(leaf, torch.nn.Parameter)]
        if not unnamed:
            return
        shapes = ", ".join(str(list(leaf.shape)) for leaf in unnamed)
        raise _core.Error(
            f"f uses parameters that this layer does not know, of shape {shapes}: name them in parameters=[...], make f "
            "a torch.nn.Module that has them, or pass what is computed outside as an input"
        )

    if TYPE_CHECKING:
        __call__ = forward

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.to_dict().items())

    def __getstate__(self) -> dict[str, Any]:
        """For copy.deepcopy and pickle."""
        if len(self.named) > 0 and not isinstance(self.f, torch.nn.Module) and _owner(self.f) is None:
            raise _core.Error(
                f"a layer around a {type(self.f).__name__} cannot be copied with its parameters: the copy's would go on using "
                "the old ones; make f a torch.nn.Module that has them"
            )
        state = self.__dict__.copy()
        del state["_layer"], state["_replay_key"], state["_made_of"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._begin()


@outside_of_compilers
def fixed_point(
    f: Callable[..., State],
    z0: State,
    *inputs: Tensor,
    callback: Optional[Callback] = None,
    **options: Unpack[LayerOptions],
) -> Equilibrated:
    """The fixed point z* = f(z*, *inputs) of any function, solved from z0 and differentiated as the options say:
    those of `EquilibriumOptions`. Gradients reach whatever f uses. f is evaluated, never replayed."""
    if not callable(f):
        raise TypeError(f"f is a {type(f).__name__}, must be a function of (z, *inputs)")
    refuse_transforms()
    require_callback(callback)
    start = _as_tuple(z0)
    _require_tensors(start, "part of z0")
    _require_tensors(inputs, "input")
    if not start:
        raise _core.Error("fixed_point: z0 holds no tensor")
    _require_one_device(start, inputs)
    layer = _core.Layer(f, None, None, None, EquilibriumOptions(**options))
    run = functools.partial(layer.forward, inputs, start, None, None, callback, True)
    return _solved(run, (*inputs, *start), f, compiled=is_compiled(f), looks_inside=True)


@outside_of_compilers
def path_distance(eq: Equilibrated, solver: SolverOptions, *, generator: Optional[torch.Generator] = None) -> Tensor:
    """How much it matters where a solve begins: ‖z′ − z*‖ / ‖z*‖ of every sample, [B], where z* is the equilibrium and z′
    what the solver finds for the same f from random numbers of z*'s size. For a pass in eval mode, without gradients."""
    return _core.path_distance(_checked(eq), Solver(solver), generator)


@outside_of_compilers
def start_distance(eq: Equilibrated) -> Tensor:
    """‖z₀ − z*‖² / ‖z*‖² of every sample, [B], where z₀ is where the solve began and z* what it found, without its graph:
    what a predicted start is trained with. Gradients reach the start and what it is made from, not f. The start is what
    `z0` or a cell's `initial_state` gave, with the graph that it had: where that is one of another loss, the two share one
    backward()."""
    return _core.start_distance(_checked(eq))


@outside_of_compilers
def step_distance(eq: Equilibrated, start: Optional[State] = None) -> Tensor:
    """The same after one step of f, from z₀ or from another `start`. Gradients reach f's parameters and inputs and the
    start. Costs one evaluation; a layer in training mode must not be replayed for it."""
    state = () if start is None else _as_tuple(start)
    _require_tensors(state, "part of start")
    return _core.step_distance(_checked(eq), state)


def _checked(eq: Equilibrated) -> Equilibrated:
    if not isinstance(eq, Equilibrated):
        raise TypeError(f"eq is a {type(eq).__name__}, must be what a layer returned")
    return eq


def _solved(
    run: Callable[[], Equilibrated],
    given: tuple[Tensor, ...],
    f: Callable[..., State],
    *,
    compiled: bool,
    looks_inside: bool,
) -> Equilibrated:
    """One pass, of an f that torch.compile may know. `looks_inside` for a compiled part that nobody could see before."""
    if compiled:
        keep_memory()
        if uses_graphs_of_its_own(f) and any(tensor.is_cuda for tensor in given):
            raise _core.Error(_OVERWRITTEN_RESULTS)
    eq = run()
    if looks_inside and may_give_memory_away() and _core.has_node(eq.state, given, "CompiledFunction"):
        keep_memory()
        eq = run()
    _require_finite(eq.report)
    if compiled:
        eq.f_is_compiled = True
    return eq


_TWO_RECORDINGS = (
    "f was compiled with mode='reduce-overhead' (or another one with CUDA graphs), which cannot be replayed inside of "
    "replay=True: compile it without, as replay=True does the same for the whole solve"
)
_OVERWRITTEN_RESULTS = (
    "f was compiled with mode='reduce-overhead' (or another one with CUDA graphs), whose results the next call overwrites "
    "while a solver still needs them: compile it without, and use replay=True to the same end"
)


def _may_replay(f: Callable[..., State], replay: Replay) -> bool:
    """A plain function is replayed where that is asked for, a cell also where it has a key."""
    return replay not in (False, "off") and (replay != "automatic" or isinstance(f, Cell))


class _ReplayKey:
    """What a recording of f depends on besides tensors. Holds f, as the compiled layer does."""

    def __init__(self, f: Callable[..., State], replay: Replay) -> None:
        self.f = f
        self.is_promised = replay != "automatic"

    def __call__(self) -> Optional[list[float]]:
        own = self.f.replay_key() if isinstance(self.f, Cell) else None
        if own is None and not self.is_promised:
            return None
        modes = [float(part.training) for part in self.f.modules()] if isinstance(self.f, torch.nn.Module) else []
        return modes + [float(number) for number in own or ()]


def _replay_option(replay: Replay) -> Literal["automatic", "off", "checked"]:
    if isinstance(replay, bool):
        return "automatic" if replay else "off"
    return replay


def _owner(f: Callable[..., State]) -> Optional[torch.nn.Module]:
    """The module whose method f is."""
    owner = getattr(f, "__self__", None) if isinstance(f, types.MethodType) else None
    return owner if isinstance(owner, torch.nn.Module) else None


def _each_once(*several: Iterable[Tensor]) -> list[Tensor]:
    return list({id(tensor): tensor for tensors in several for tensor in tensors}.values())


def _modules_seen_by(f: Callable[..., State]) -> Iterator[torch.nn.Module]:
    """f, the one whose method it is, and those that a function holds."""
    return (part for part in (_owner(f), *visible_parts(f)) if isinstance(part, torch.nn.Module))


def _first(inputs: tuple[Tensor, ...]) -> Tensor:
    """What z looks like where nobody says it."""
    if not inputs:
        raise _core.Error("without an input nothing says what z looks like: give z0 or initial_state")
    if inputs[0].dtype not in (torch.float32, torch.float64):
        raise _core.Error(
            f"z would start like the first input, which is {inputs[0].dtype} {list(inputs[0].shape)}, and a state must be "
            "float32 or float64: give z0 or initial_state"
        )
    return inputs[0]


def _as_tuple(state: State) -> tuple[Tensor, ...]:
    return (state,) if isinstance(state, Tensor) else tuple(state)


def _require_tensors(values: Sequence[Any], what: str) -> None:
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise TypeError(f"{what} {i} is a {type(value).__name__}, must be a tensor")


def _require_one_device(start: tuple[Tensor, ...], others: Iterable[Tensor]) -> None:
    """A start that is alone on its device is a mistake. Numbers and indices may stay on the host."""
    if not start:
        return
    device = start[0].device
    what, devices = "another part of it", [part.device for part in start if part.device != device]
    if not devices:
        what, devices = "all else", [tensor.device for tensor in others if tensor.dim() > 0 and tensor.is_floating_point()]
    if devices and device not in devices:
        raise _core.Error(f"z0 is on {device}, but {what} is on {devices[0]}: move it there, as z0.to(x.device) does")


def _checked_parameters(parameters: Iterable[torch.nn.Parameter]) -> Iterator[torch.nn.Parameter]:
    if isinstance(parameters, (Tensor, torch.nn.Module)):
        raise TypeError(
            f"parameters is a {type(parameters).__name__}, must be a list of torch.nn.Parameter, such as a module's parameters()"
        )
    for i, parameter in enumerate(parameters):
        if not isinstance(parameter, torch.nn.Parameter):
            raise TypeError(f"parameters[{i}] is a {type(parameter).__name__}, must be a torch.nn.Parameter")
        yield parameter


def _require_finite(report: _core.Report) -> None:
    """A solve that is lost at its first evaluation has nothing to report on."""
    if report.status != "non-finite values":
        return
    if set(report.statuses) == {report.status} and bool((report.sample_evaluations <= 1).all()):
        raise _core.Error(
            "f(z0) is not finite for any sample: look for NaN or infinity in the inputs, in the parameters, or in f"
        )

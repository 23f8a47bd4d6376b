"""The compiled core of deq, as type checkers and the API reference see it."""

from typing import Any, Callable, Literal, Optional, Sequence, Union

import torch
from torch import Tensor
from typing_extensions import Self

from deq.mixing import LearntMixing

__version__: str
torch_version: str

def cuda_status() -> tuple[bool, str]:
    """Whether CUDA can be used, and if not, why."""

class Error(RuntimeError):
    """Something could not be done. The message is one sentence for the user. Numerical trouble is no error; a
    `Report` names it."""

class ConvergenceError(Error):
    """A solve failed where on_failure="raise" was asked for: in the layer's call or in backward()."""

Scope = Literal["per-sample", "whole-batch"]
RidgeScale = Literal["relative", "absolute"]
Distribution = Literal["gaussian", "rademacher"]
OnFailure = Literal["report", "raise"]
Status = Literal[
    "converged",
    "stopped by the caller",
    "out of evaluations",
    "stagnated",
    "diverged",
    "non-finite values",
    "not run",
]

class Picard:
    """z ← z + damping·(f(z) − z). Needs no memory; converges where the Jacobian's spectral radius is < 1."""

    def __init__(
        self,
        *,
        damping: float = 1.0,
        max_evals: int = 40,
        atol: float = 0.0,
        rtol: float = 0.001,
        scope: Scope = "per-sample",
        stagnation_window: int = 30,
        divergence_factor: float = 10000.0,
    ) -> None: ...
    def replace(
        self,
        *,
        damping: float = ...,
        max_evals: int = ...,
        atol: float = ...,
        rtol: float = ...,
        scope: Scope = ...,
        stagnation_window: int = ...,
        divergence_factor: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def damping(self) -> float:
        """The fraction of f(z) − z that a step takes, 0 < damping ≤ 1."""

    @property
    def max_evals(self) -> int:
        """The budget of evaluations of f, trial points and probes included."""

    @property
    def atol(self) -> float:
        """The absolute part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖."""

    @property
    def rtol(self) -> float:
        """The relative part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖."""

    @property
    def scope(self) -> Scope:
        """Whether each sample converges by itself or the batch as one."""

    @property
    def stagnation_window(self) -> int:
        """Gives up when this many iterates in a row gain less than 1%; 0 never does."""

    @property
    def divergence_factor(self) -> float:
        """Gives up when the residual exceeds this many times its first value."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Anderson:
    """Anderson acceleration: the combination of the last `memory` iterates with the smallest residual."""

    def __init__(
        self,
        *,
        memory: int = 6,
        beta: float = 1.0,
        ridge: float = 1e-08,
        ridge_scale: RidgeScale = "relative",
        restart_factor: float = 100.0,
        mixing: Optional[LearntMixing] = None,
        max_evals: int = 40,
        atol: float = 0.0,
        rtol: float = 0.001,
        scope: Scope = "per-sample",
        stagnation_window: int = 30,
        divergence_factor: float = 10000.0,
    ) -> None: ...
    def replace(
        self,
        *,
        memory: int = ...,
        beta: float = ...,
        ridge: float = ...,
        ridge_scale: RidgeScale = ...,
        restart_factor: float = ...,
        mixing: Optional[LearntMixing] = ...,
        max_evals: int = ...,
        atol: float = ...,
        rtol: float = ...,
        scope: Scope = ...,
        stagnation_window: int = ...,
        divergence_factor: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def memory(self) -> int:
        """How many iterates are combined; 1 is damped Picard."""

    @property
    def beta(self) -> float:
        """How much of the residuals goes into the combination, 0 < beta ≤ 1."""

    @property
    def ridge(self) -> float:
        """The Tikhonov term of the small linear system, ≥ 0."""

    @property
    def ridge_scale(self) -> RidgeScale:
        """Whether the ridge is relative to the mean diagonal of that system."""

    @property
    def restart_factor(self) -> float:
        """A sample whose residual is this many times its smallest starts anew, > 1."""

    @property
    def mixing(self) -> Optional[LearntMixing]:
        """A LearntMixing of the same memory, which corrects the weights and beta."""

    @property
    def max_evals(self) -> int:
        """The budget of evaluations of f, trial points and probes included."""

    @property
    def atol(self) -> float:
        """The absolute part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖."""

    @property
    def rtol(self) -> float:
        """The relative part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖."""

    @property
    def scope(self) -> Scope:
        """Whether each sample converges by itself or the batch as one."""

    @property
    def stagnation_window(self) -> int:
        """Gives up when this many iterates in a row gain less than 1%; 0 never does."""

    @property
    def divergence_factor(self) -> float:
        """Gives up when the residual exceeds this many times its first value."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Broyden:
    """Broyden's "good" method: a secant approximation of (J − I)⁻¹ that starts from −I."""

    def __init__(
        self,
        *,
        memory: int = 60,
        line_search: bool = False,
        bfloat16_steps: bool = False,
        max_evals: int = 40,
        atol: float = 0.0,
        rtol: float = 0.001,
        scope: Scope = "per-sample",
        stagnation_window: int = 30,
        divergence_factor: float = 10000.0,
    ) -> None: ...
    def replace(
        self,
        *,
        memory: int = ...,
        line_search: bool = ...,
        bfloat16_steps: bool = ...,
        max_evals: int = ...,
        atol: float = ...,
        rtol: float = ...,
        scope: Scope = ...,
        stagnation_window: int = ...,
        divergence_factor: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def memory(self) -> int:
        """How many updates fit before the history starts anew."""

    @property
    def line_search(self) -> bool:
        """Whether to backtrack while a step does not lower the residual."""

    @property
    def bfloat16_steps(self) -> bool:
        """Whether a GPU keeps the steps of float32 states in bfloat16: half the memory."""

    @property
    def max_evals(self) -> int:
        """The budget of evaluations of f, trial points and probes included."""

    @property
    def atol(self) -> float:
        """The absolute part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖."""

    @property
    def rtol(self) -> float:
        """The relative part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖."""

    @property
    def scope(self) -> Scope:
        """Whether each sample converges by itself or the batch as one."""

    @property
    def stagnation_window(self) -> int:
        """Gives up when this many iterates in a row gain less than 1%; 0 never does."""

    @property
    def divergence_factor(self) -> float:
        """Gives up when the residual exceeds this many times its first value."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class LimitedBroyden:
    """Broyden with a fixed history: the oldest update is dropped when `memory` is full."""

    def __init__(
        self,
        *,
        memory: int = 8,
        max_evals: int = 40,
        atol: float = 0.0,
        rtol: float = 0.001,
        scope: Scope = "per-sample",
        stagnation_window: int = 30,
        divergence_factor: float = 10000.0,
    ) -> None: ...
    def replace(
        self,
        *,
        memory: int = ...,
        max_evals: int = ...,
        atol: float = ...,
        rtol: float = ...,
        scope: Scope = ...,
        stagnation_window: int = ...,
        divergence_factor: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def memory(self) -> int:
        """How many of the last updates are kept."""

    @property
    def max_evals(self) -> int:
        """The budget of evaluations of f, trial points and probes included."""

    @property
    def atol(self) -> float:
        """The absolute part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖."""

    @property
    def rtol(self) -> float:
        """The relative part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖."""

    @property
    def scope(self) -> Scope:
        """Whether each sample converges by itself or the batch as one."""

    @property
    def stagnation_window(self) -> int:
        """Gives up when this many iterates in a row gain less than 1%; 0 never does."""

    @property
    def divergence_factor(self) -> float:
        """Gives up when the residual exceeds this many times its first value."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class NewtonKrylov:
    """Newton's method; each linear system (I − J) d = g by GMRES."""

    def __init__(
        self,
        *,
        krylov_dim: int = 20,
        forcing: float = 0.01,
        max_evals: int = 100,
        atol: float = 0.0,
        rtol: float = 0.001,
        scope: Scope = "per-sample",
        stagnation_window: int = 30,
        divergence_factor: float = 10000.0,
    ) -> None: ...
    def replace(
        self,
        *,
        krylov_dim: int = ...,
        forcing: float = ...,
        max_evals: int = ...,
        atol: float = ...,
        rtol: float = ...,
        scope: Scope = ...,
        stagnation_window: int = ...,
        divergence_factor: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def krylov_dim(self) -> int:
        """Vectors of GMRES."""

    @property
    def forcing(self) -> float:
        """GMRES stops when it has reduced its residual to this fraction, 0 ≤ forcing < 1."""

    @property
    def max_evals(self) -> int:
        """The budget of evaluations of f, trial points and probes included."""

    @property
    def atol(self) -> float:
        """The absolute part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖."""

    @property
    def rtol(self) -> float:
        """The relative part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖."""

    @property
    def scope(self) -> Scope:
        """Whether each sample converges by itself or the batch as one."""

    @property
    def stagnation_window(self) -> int:
        """Gives up when this many iterates in a row gain less than 1%; 0 never does."""

    @property
    def divergence_factor(self) -> float:
        """Gives up when the residual exceeds this many times its first value."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

SolverOptions = Union[Picard, Anderson, Broyden, LimitedBroyden, NewtonKrylov]

class Implicit:
    """Exact: u (I − J) = g, solved as the fixed point of u ↦ uJ + g. With `twice` it can be differentiated again
    (create_graph), to any order."""

    def __init__(
        self,
        *,
        solver: SolverOptions = ...,
        twice: bool = False,
    ) -> None: ...
    def replace(
        self,
        *,
        solver: SolverOptions = ...,
        twice: bool = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def solver(self) -> SolverOptions:
        """Solves the adjoint system, from u = 0."""

    @property
    def twice(self) -> bool:
        """Whether the gradient can be differentiated again (create_graph)."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Truncated:
    """The first terms of the Neumann series: u = g (I + J + … + Jᵏ), k = terms."""

    def __init__(
        self,
        *,
        terms: int = 5,
    ) -> None: ...
    def replace(
        self,
        *,
        terms: int = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def terms(self) -> int:
        """Products with the Jacobian."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class JacobianFree:
    """u = g, no product at all (Fung et al. 2022)."""

    def __init__(self) -> None: ...
    def replace(self) -> Self:
        """The same."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Shine:
    """The adjoint from the inverse that the forward solve by Broyden has built: no product (Ramzi et al. 2022). Where it
    is longer than `fallback` times g, g. With `refinement`, a solver, the adjoint solve goes on from there."""

    def __init__(
        self,
        *,
        fallback: float = 1.3,
        refinement: Optional[SolverOptions] = None,
    ) -> None: ...
    def replace(
        self,
        *,
        fallback: float = ...,
        refinement: Optional[SolverOptions] = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def fallback(self) -> float:
        """Where u is longer than this many times g, g is taken."""

    @property
    def refinement(self) -> Optional[SolverOptions]:
        """A solver that goes on from u, or None."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Phantom:
    """Backpropagation through `steps` damped steps z ← (1 − τ) z + τ f(z) from z* (Geng et al. 2021)."""

    def __init__(
        self,
        *,
        steps: int = 5,
        tau: float = 0.5,
    ) -> None: ...
    def replace(
        self,
        *,
        steps: int = ...,
        tau: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def steps(self) -> int:
        """Damped steps from z* that are backpropagated through."""

    @property
    def tau(self) -> float:
        """The damping, 0 < tau ≤ 1."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Unrolled:
    """No solver: `steps` plain steps from z₀, backpropagated through, or only the last of them."""

    def __init__(
        self,
        *,
        steps: int = 10,
        backpropagated: int = 0,
        replayed: bool = False,
        measured: bool = True,
    ) -> None: ...
    def replace(
        self,
        *,
        steps: int = ...,
        backpropagated: int = ...,
        replayed: bool = ...,
        measured: bool = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def steps(self) -> int:
        """Plain steps from z₀."""

    @property
    def backpropagated(self) -> int:
        """Only through the last so many of them; 0: through all."""

    @property
    def replayed(self) -> bool:
        """Whether the steps may be replayed on a GPU."""

    @property
    def measured(self) -> bool:
        """Whether one more evaluation tells the residual of the last state."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Reversible:
    """No solver: `steps` steps y ← (1 − β) y + β f(z), z ← (1 − β) z + β f(y), which backward() undoes: exact, with
    memory that does not grow with them (McCallum et al. 2025)."""

    def __init__(
        self,
        *,
        steps: int = 8,
        beta: float = 0.5,
    ) -> None: ...
    def replace(
        self,
        *,
        steps: int = ...,
        beta: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def steps(self) -> int:
        """Steps of two evaluations each from z₀."""

    @property
    def beta(self) -> float:
        """How much of f a step takes, 0 < beta < 1."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

GradientOptions = Union[Implicit, Truncated, JacobianFree, Shine, Phantom, Unrolled, Reversible]

class ConstantSchedule:
    """The same value at every step."""

    def __init__(
        self,
        *,
        value: float = 0.0,
    ) -> None: ...
    def replace(
        self,
        *,
        value: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def value(self) -> float: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class LinearSchedule:
    """`from_` until step `begin`, `to` from step `end` on, linear in between. begin ≤ end."""

    def __init__(
        self,
        *,
        from_: float = 0.0,
        to: float = 0.0,
        begin: int = 0,
        end: int = 1,
    ) -> None: ...
    def replace(
        self,
        *,
        from_: float = ...,
        to: float = ...,
        begin: int = ...,
        end: int = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def from_(self) -> float: ...
    @property
    def to(self) -> float: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class StaircaseSchedule:
    """start + increment·⌊step / every⌋, every ≥ 1."""

    def __init__(
        self,
        *,
        start: float = 0.0,
        increment: float = 0.0,
        every: int = 1,
    ) -> None: ...
    def replace(
        self,
        *,
        start: float = ...,
        increment: float = ...,
        every: int = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def start(self) -> float: ...
    @property
    def increment(self) -> float: ...
    @property
    def every(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

ScheduleShape = Union[ConstantSchedule, LinearSchedule, StaircaseSchedule]

class Schedule:
    """A number that depends on the training step; 0 from the step `stop` on."""

    def __init__(
        self,
        *,
        shape: ScheduleShape = ...,
        stop: Optional[int] = None,
    ) -> None: ...
    def replace(
        self,
        *,
        shape: ScheduleShape = ...,
        stop: Optional[int] = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def shape(self) -> ScheduleShape: ...
    @property
    def stop(self) -> Optional[int]: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def at(self, step: int) -> float:
        """The number at this step."""

class Hutchinson:
    """Hutchinson's estimator of ‖J‖²_F from random probes; the relative error falls as probes^(−1/2)."""

    def __init__(
        self,
        *,
        probes: int = 1,
        distribution: Distribution = "gaussian",
    ) -> None: ...
    def replace(
        self,
        *,
        probes: int = ...,
        distribution: Distribution = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def probes(self) -> int:
        """Random vectors per sample."""

    @property
    def distribution(self) -> Distribution:
        """Of the entries of a probe."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class SpectralRadiusOptions:
    """How a spectral radius is computed: Arnoldi vectors before a restart, products in all, and when to stop."""

    def __init__(
        self,
        *,
        krylov_dim: int = 24,
        max_products: int = 200,
        tolerance: float = 0.0001,
    ) -> None: ...
    def replace(
        self,
        *,
        krylov_dim: int = ...,
        max_products: int = ...,
        tolerance: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def krylov_dim(self) -> int:
        """Arnoldi vectors before a restart."""

    @property
    def max_products(self) -> int:
        """The most products with J."""

    @property
    def tolerance(self) -> float:
        """Stops at ‖Jv − λv‖ ≤ tolerance·|λ|."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class EquilibriumOptions:
    """How an equilibrium is found and differentiated, and what happens when a solve fails.

    With gradients a layer's value is f(z*), one step further than the solve, unless one_more_step is False; without
    gradients it is z*. In training mode a solve from the layer's own start begins start_noise times normal numbers away
    from it."""

    def __init__(
        self,
        *,
        forward: SolverOptions = ...,
        gradient: GradientOptions = ...,
        one_more_step: bool = True,
        on_failure: OnFailure = "report",
        float32_evals: int = 0,
        replay: Union[bool, Literal["automatic", "off", "checked"]] = "automatic",
        start_noise: float = 0.0,
    ) -> None: ...
    def replace(
        self,
        *,
        forward: SolverOptions = ...,
        gradient: GradientOptions = ...,
        one_more_step: bool = ...,
        on_failure: OnFailure = ...,
        float32_evals: int = ...,
        replay: Union[bool, Literal["automatic", "off", "checked"]] = ...,
        start_noise: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def forward(self) -> SolverOptions:
        """The solver that finds z*."""

    @property
    def gradient(self) -> GradientOptions:
        """How the gradient passes z*."""

    @property
    def one_more_step(self) -> bool:
        """Whether the value with gradients is f(z*), not z*."""

    @property
    def on_failure(self) -> OnFailure:
        """Whether a failed solve gives its best iterate or raises ConvergenceError."""

    @property
    def float32_evals(self) -> int:
        """The most evaluations in float32 with which a solve under autocast is finished, without gradients."""

    @property
    def replay(self) -> Literal["automatic", "off", "checked"]:
        """Whether passes on a GPU are recorded and replayed."""

    @property
    def start_noise(self) -> float:
        """In training, a solve begins so many times normal numbers away from its start."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class TracePoint:
    """What one observed iterate looked like: means and maxima over the samples still active."""

    @property
    def evaluations(self) -> int: ...
    @property
    def active(self) -> int: ...
    @property
    def mean_absolute(self) -> float: ...
    @property
    def max_absolute(self) -> float: ...
    @property
    def mean_relative(self) -> float: ...
    @property
    def max_relative(self) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...

class SampleReport:
    """What happened to one sample."""

    @property
    def status(self) -> Status: ...
    @property
    def evaluations(self) -> int: ...
    @property
    def absolute(self) -> float: ...
    @property
    def relative(self) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...

class Report:
    """Everything a solve says about itself. Residuals are those of the iterate returned. str() is one line."""

    @property
    def status(self) -> Status: ...
    @property
    def advice(self) -> str: ...
    @property
    def converged(self) -> bool: ...
    @property
    def evaluations(self) -> int: ...
    @property
    def samples(self) -> list[SampleReport]:
        """A new list at each access: keep it, or take the numbers of all samples as below."""

    @property
    def statuses(self) -> list[Status]:
        """That of every sample."""

    @property
    def sample_evaluations(self) -> Tensor:
        """What every sample had spent when it stopped, [B]."""

    @property
    def absolute(self) -> Tensor:
        """‖f(z) − z‖ of every sample, [B]."""

    @property
    def relative(self) -> Tensor:
        """‖f(z) − z‖ / ‖f(z)‖ of every sample, [B]."""

    @property
    def trace(self) -> list[TracePoint]: ...
    @property
    def restarts(self) -> int: ...
    @property
    def ridge_raises(self) -> int: ...
    @property
    def skipped_updates(self) -> int: ...
    @property
    def step_rejections(self) -> int: ...
    @property
    def fallbacks(self) -> int: ...
    @property
    def mean_relative(self) -> float: ...
    @property
    def max_relative(self) -> float: ...
    @property
    def max_absolute(self) -> float: ...
    def relative_quantile(self, q: float) -> float:
        """The q-quantile (0 ≤ q ≤ 1) of the samples' relative residuals."""

    def brief(self) -> str:
        """One line: status, cost, residual, and advice when it did not converge."""

    def to_dict(self) -> dict[str, Any]: ...

class Linearization:
    """f's Jacobian J = ∂f/∂z at one point z, as products with J, no J itself."""

    @property
    def z(self) -> Tensor: ...
    @property
    def batch(self) -> int: ...
    @property
    def dim(self) -> int: ...
    def vjp(self, u: Tensor, differentiable: bool = False) -> Tensor:
        """uᵀJ for every sample, u [B, D]."""

class SpectralRadius:
    """The largest |λ(J)| of every sample, and ‖Jv − λv‖ of the eigenpair behind it."""

    @property
    def rho(self) -> list[float]: ...
    @property
    def error(self) -> list[float]: ...
    @property
    def products(self) -> int: ...
    def mean(self) -> float: ...

class Tangent:
    """How an equilibrium moves: ż as a slab [B, D], and how the solve for it went."""

    @property
    def along(self) -> Tensor: ...
    @property
    def report(self) -> Report: ...

class ProbeKey:
    """Where the probes of an estimate come from. The probe of a sample depends only on the key and on the sample's
    number, so that a batch split over processes gets the probes of the whole batch."""

    def __init__(self, key: int, first_sample: int = 0) -> None: ...
    @property
    def key(self) -> int: ...
    @property
    def first_sample(self) -> int: ...

def frobenius_squared(
    at: Linearization,
    options: Hutchinson,
    key: Optional[ProbeKey],
    generator: Optional[torch.Generator],
    differentiable: bool,
) -> Tensor: ...
def jacobian_penalty(
    at: Linearization, options: Hutchinson, key: Optional[ProbeKey], generator: Optional[torch.Generator]
) -> Tensor: ...
def squared_gain(
    at: Linearization,
    steps: int,
    start: Hutchinson,
    key: Optional[ProbeKey],
    generator: Optional[torch.Generator],
    differentiable: bool,
) -> Tensor: ...
def spectral_penalty(
    at: Linearization, steps: int, start: Hutchinson, key: Optional[ProbeKey], generator: Optional[torch.Generator]
) -> Tensor: ...
def linsley_penalty(at: Linearization, lambda_: float) -> Tensor: ...
def spectral_radius(
    at: Linearization, options: SpectralRadiusOptions, generator: Optional[torch.Generator]
) -> SpectralRadius: ...
def dense_jacobian(at: Linearization) -> Tensor: ...
def tangent(at: Linearization, moves: list[tuple[Tensor, Tensor]], solver: SolverOptions) -> Tangent: ...

class Progress:
    """What a callback sees after each observed iterate: z and f(z) as slabs [B, D], and the trace's point."""

    @property
    def z(self) -> Tensor: ...
    @property
    def f(self) -> Tensor: ...
    @property
    def point(self) -> TracePoint: ...

class Solution:
    """What a solver found."""

    @property
    def z(self) -> Tensor: ...
    @property
    def report(self) -> Report: ...

class Solver:
    """A fixed-point solver for batches of problems z = f(z), on slabs [B, D]. May be used from several threads."""

    def __init__(self, options: SolverOptions) -> None: ...
    def solve(
        self,
        f: Callable[[Tensor], Tensor],
        z0: Tensor,
        callback: Optional[Callable[[Progress], Optional[bool]]] = None,
    ) -> Solution:
        """Solves z = f(z) from z0 [B, D]. Builds no autograd graph."""

    @property
    def options(self) -> SolverOptions: ...

class EquilibriumPlan:
    """Options made ready for use. May serve several layers and threads."""

    def __init__(self, options: EquilibriumOptions) -> None: ...
    @property
    def options(self) -> EquilibriumOptions: ...

class Equilibrated:
    """What one pass through an equilibrium layer gives."""

    f_is_compiled: bool
    @property
    def z(self) -> Tensor:
        """The first state tensor, for the many layers that have one."""

    @property
    def state(self) -> tuple[Tensor, ...]:
        """z*, or with gradient f(z*), as a tuple of tensors."""

    @property
    def report(self) -> Report:
        """How the solve went."""

    @property
    def adjoint(self) -> Report:
        """How the adjoint solve went; status "not run" before backward()."""

    @property
    def replayed(self) -> bool:
        """Whether this pass was replayed on a GPU, not evaluated."""

    def linearization(self) -> Linearization:
        """f around the detached z*, for penalties and spectra. Shares its graph with the gradient."""

class Layer:
    def __init__(
        self,
        step: Callable[..., Any],
        prepare: Optional[Callable[..., Any]],
        initial_state: Optional[Callable[..., Any]],
        replay_key: Optional[Callable[[], Optional[list[float]]]],
        options: EquilibriumOptions,
    ) -> None: ...
    def forward(
        self,
        inputs: Sequence[Tensor],
        start: Sequence[Tensor],
        plan: Optional[EquilibriumPlan],
        solver: Optional[Solver],
        callback: Optional[Callable[[Progress], Optional[bool]]],
        training: bool,
    ) -> Equilibrated: ...
    def set_leaves(self, parameters: list[Tensor], buffers: list[Tensor]) -> None: ...
    @property
    def options(self) -> EquilibriumOptions: ...

class StreamCost:
    """What a stream has cost so far: inputs, those of them that began at the equilibrium before, and evaluations of f
    without those of comparisons. Then the inputs that were solved in both ways, what each way took, and `saved`: the
    share of a cold solve's evaluations that a warm one spares, NaN before a comparison."""

    @property
    def inputs(self) -> int: ...
    @property
    def warm(self) -> int: ...
    @property
    def evaluations(self) -> int: ...
    @property
    def compared(self) -> int: ...
    @property
    def compared_warm(self) -> int: ...
    @property
    def compared_cold(self) -> int: ...
    @property
    def saved(self) -> float: ...

class LayerStream:
    def __init__(self, layer: Layer, compare_every: int, extrapolate: float) -> None: ...
    def next(self, inputs: Sequence[Tensor], training: bool) -> Equilibrated: ...
    def reset(self) -> None: ...
    @property
    def cost(self) -> StreamCost: ...

class LearntMixingCore:
    def __init__(self, memory: int, hidden: int, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...

def mixing_loss(
    f: Callable[[Tensor], Tensor], z0: Tensor, z_star: Tensor, solver: Anderson, closeness: float
) -> Tensor: ...
def path_distance(eq: Equilibrated, solver: Solver, generator: Optional[torch.Generator]) -> Tensor: ...
def start_distance(eq: Equilibrated) -> Tensor: ...
def step_distance(eq: Equilibrated, start: Sequence[Tensor]) -> Tensor: ...
def group_norm_serves(x: Tensor, weight: Optional[Tensor], groups: int, eps: float, dtype: torch.dtype) -> bool: ...
def group_norm(
    x: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], groups: int, eps: float, dtype: torch.dtype
) -> Tensor: ...
def why_not_replayed(z: Tensor) -> Optional[str]: ...
def tell_of_adjoint(eq: Equilibrated, function: Callable[[Report], Any]) -> None: ...
def has_node(tensors: Sequence[Tensor], inputs: Sequence[Tensor], name: str) -> bool: ...
def other_leaves(eq: Equilibrated, inputs: Sequence[Tensor], known: list[Tensor]) -> list[Tensor]: ...

Splitting = Literal["peaceman-rachford", "forward-backward"]
Stem = Literal["cifar", "imagenet"]
MemoryGates = Literal["none", "unit", "memory"]
ReasonerStart = Literal["fixed", "random"]

class MdeqOptions:
    """A multiscale DEQ for images. The defaults are the authors' tiny model for CIFAR-10."""

    def __init__(
        self,
        *,
        image_channels: int = 3,
        channels: list[int] = [24, 24],
        blocks: list[int] = [],
        big_kernels: list[int] = [],
        expansion: int = 5,
        groups: int = 8,
        dropout: float = 0.25,
        weight_norm: bool = True,
        block_norm_affine: bool = True,
        fuse_norm_affine: bool = True,
        post_norm_affine: bool = False,
        predicted_start: bool = False,
        downsample_times: int = 0,
        head_channels: list[int] = [8, 16],
        final_channels: int = 200,
        classes: int = 10,
    ) -> None: ...
    def replace(
        self,
        *,
        image_channels: int = ...,
        channels: list[int] = ...,
        blocks: list[int] = ...,
        big_kernels: list[int] = ...,
        expansion: int = ...,
        groups: int = ...,
        dropout: float = ...,
        weight_norm: bool = ...,
        block_norm_affine: bool = ...,
        fuse_norm_affine: bool = ...,
        post_norm_affine: bool = ...,
        predicted_start: bool = ...,
        downsample_times: int = ...,
        head_channels: list[int] = ...,
        final_channels: int = ...,
        classes: int = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def image_channels(self) -> int: ...
    @property
    def channels(self) -> list[int]: ...
    @property
    def blocks(self) -> list[int]: ...
    @property
    def big_kernels(self) -> list[int]: ...
    @property
    def expansion(self) -> int: ...
    @property
    def groups(self) -> int: ...
    @property
    def dropout(self) -> float: ...
    @property
    def weight_norm(self) -> bool: ...
    @property
    def block_norm_affine(self) -> bool: ...
    @property
    def fuse_norm_affine(self) -> bool: ...
    @property
    def post_norm_affine(self) -> bool: ...
    @property
    def predicted_start(self) -> bool: ...
    @property
    def downsample_times(self) -> int: ...
    @property
    def head_channels(self) -> list[int]: ...
    @property
    def final_channels(self) -> int: ...
    @property
    def classes(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class MonotoneOptions:
    """A monotone operator equilibrium network for square images (Winston and Kolter 2020)."""

    def __init__(
        self,
        *,
        image_channels: int = 3,
        image_size: int = 32,
        channels: list[int] = [81],
        strength: float = 1.0,
        splitting: Splitting = "peaceman-rachford",
        alpha: float = 1.0,
        classes: int = 10,
    ) -> None: ...
    def replace(
        self,
        *,
        image_channels: int = ...,
        image_size: int = ...,
        channels: list[int] = ...,
        strength: float = ...,
        splitting: Splitting = ...,
        alpha: float = ...,
        classes: int = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def image_channels(self) -> int: ...
    @property
    def image_size(self) -> int: ...
    @property
    def channels(self) -> list[int]: ...
    @property
    def strength(self) -> float: ...
    @property
    def splitting(self) -> Splitting: ...
    @property
    def alpha(self) -> float: ...
    @property
    def classes(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class ResNetOptions:
    """A residual network for images (He et al. 2016)."""

    def __init__(
        self,
        *,
        blocks: list[int] = [2, 2, 2, 2],
        bottleneck: bool = False,
        stem: Stem = "cifar",
        classes: int = 10,
    ) -> None: ...
    def replace(
        self,
        *,
        blocks: list[int] = ...,
        bottleneck: bool = ...,
        stem: Stem = ...,
        classes: int = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def blocks(self) -> list[int]: ...
    @property
    def bottleneck(self) -> bool: ...
    @property
    def stem(self) -> Stem: ...
    @property
    def classes(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class DenseNetOptions:
    """A densely connected network for images (Huang et al. 2017)."""

    def __init__(
        self,
        *,
        layers: list[int] = [6, 12, 24, 16],
        growth: int = 32,
        stem: Stem = "cifar",
        classes: int = 10,
    ) -> None: ...
    def replace(
        self,
        *,
        layers: list[int] = ...,
        growth: int = ...,
        stem: Stem = ...,
        classes: int = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def layers(self) -> list[int]: ...
    @property
    def growth(self) -> int: ...
    @property
    def stem(self) -> Stem: ...
    @property
    def classes(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class InceptionOptions:
    """Inception with batch normalisation for images (Ioffe and Szegedy 2015); its modules are the published ones."""

    def __init__(
        self,
        *,
        stem_channels: int = 64,
        stem_outputs: int = 192,
        stem: Stem = "cifar",
        classes: int = 10,
    ) -> None: ...
    def replace(
        self,
        *,
        stem_channels: int = ...,
        stem_outputs: int = ...,
        stem: Stem = ...,
        classes: int = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def stem_channels(self) -> int: ...
    @property
    def stem_outputs(self) -> int: ...
    @property
    def stem(self) -> Stem: ...
    @property
    def classes(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class TransformerOptions:
    """A language model of one Transformer layer at its equilibrium. The defaults are the authors' for WikiText-103."""

    def __init__(
        self,
        *,
        vocabulary: int = 267735,
        cutoffs: list[int] = [20000, 40000, 200000],
        div_val: int = 4,
        d_model: int = 700,
        d_embed: int = 700,
        heads: int = 10,
        d_head: int = 70,
        d_inner: int = 48000,
        horizon: int = 1000,
        pre_ln: bool = False,
        weight_norm: bool = True,
        tie_weights: bool = True,
        tie_projections: list[bool] = [False, True, True, True],
        dropout: float = 0.06,
        attention_dropout: float = 0.01,
        init_std: float = 0.01,
        predicted_start: bool = False,
        normalised_residual: bool = True,
        default_init_when_normalised: bool = True,
        output_drops_positions: bool = False,
    ) -> None: ...
    def replace(
        self,
        *,
        vocabulary: int = ...,
        cutoffs: list[int] = ...,
        div_val: int = ...,
        d_model: int = ...,
        d_embed: int = ...,
        heads: int = ...,
        d_head: int = ...,
        d_inner: int = ...,
        horizon: int = ...,
        pre_ln: bool = ...,
        weight_norm: bool = ...,
        tie_weights: bool = ...,
        tie_projections: list[bool] = ...,
        dropout: float = ...,
        attention_dropout: float = ...,
        init_std: float = ...,
        predicted_start: bool = ...,
        normalised_residual: bool = ...,
        default_init_when_normalised: bool = ...,
        output_drops_positions: bool = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def cutoffs(self) -> list[int]: ...
    @property
    def div_val(self) -> int: ...
    @property
    def d_model(self) -> int: ...
    @property
    def d_embed(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def d_head(self) -> int: ...
    @property
    def d_inner(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def pre_ln(self) -> bool: ...
    @property
    def weight_norm(self) -> bool: ...
    @property
    def tie_weights(self) -> bool: ...
    @property
    def tie_projections(self) -> list[bool]: ...
    @property
    def dropout(self) -> float: ...
    @property
    def attention_dropout(self) -> float: ...
    @property
    def init_std(self) -> float: ...
    @property
    def predicted_start(self) -> bool: ...
    @property
    def normalised_residual(self) -> bool: ...
    @property
    def default_init_when_normalised(self) -> bool: ...
    @property
    def output_drops_positions(self) -> bool: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class TransformerXLOptions:
    """Transformer-XL (Dai et al. 2019). The defaults are the authors' base model for WikiText-103."""

    def __init__(
        self,
        *,
        vocabulary: int = 267735,
        cutoffs: list[int] = [20000, 40000, 200000],
        div_val: int = 1,
        layers: int = 16,
        d_model: int = 410,
        d_embed: int = 410,
        heads: int = 10,
        d_head: int = 41,
        d_inner: int = 2100,
        horizon: int = 0,
        clamp_distance: int = 0,
        pre_ln: bool = False,
        tie_weights: bool = True,
        tie_projections: list[bool] = [False, True, True, True],
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        init_std: float = 0.02,
    ) -> None: ...
    def replace(
        self,
        *,
        vocabulary: int = ...,
        cutoffs: list[int] = ...,
        div_val: int = ...,
        layers: int = ...,
        d_model: int = ...,
        d_embed: int = ...,
        heads: int = ...,
        d_head: int = ...,
        d_inner: int = ...,
        horizon: int = ...,
        clamp_distance: int = ...,
        pre_ln: bool = ...,
        tie_weights: bool = ...,
        tie_projections: list[bool] = ...,
        dropout: float = ...,
        attention_dropout: float = ...,
        init_std: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def cutoffs(self) -> list[int]: ...
    @property
    def div_val(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def d_model(self) -> int: ...
    @property
    def d_embed(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def d_head(self) -> int: ...
    @property
    def d_inner(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def clamp_distance(self) -> int: ...
    @property
    def pre_ln(self) -> bool: ...
    @property
    def tie_weights(self) -> bool: ...
    @property
    def tie_projections(self) -> list[bool]: ...
    @property
    def dropout(self) -> float: ...
    @property
    def attention_dropout(self) -> float: ...
    @property
    def init_std(self) -> float: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class QrnnOptions:
    """AWD-QRNN (Bradbury et al. 2017, Merity et al. 2018). The defaults are the authors' model for WikiText-103."""

    def __init__(
        self,
        *,
        vocabulary: int = 267735,
        cutoffs: list[int] = [2800, 20000, 76000],
        div_val: int = 1,
        layers: int = 4,
        d_embed: int = 400,
        d_hidden: int = 2500,
        window: int = 2,
        tie_weights: bool = True,
        tie_projections: list[bool] = [],
        embedding_dropout: float = 0.0,
        input_dropout: float = 0.1,
        hidden_dropout: float = 0.1,
        output_dropout: float = 0.1,
        weight_dropout: float = 0.0,
        activation_penalty: float = 0.0,
        slowness_penalty: float = 0.0,
        init_std: float = 0.058,
    ) -> None: ...
    def replace(
        self,
        *,
        vocabulary: int = ...,
        cutoffs: list[int] = ...,
        div_val: int = ...,
        layers: int = ...,
        d_embed: int = ...,
        d_hidden: int = ...,
        window: int = ...,
        tie_weights: bool = ...,
        tie_projections: list[bool] = ...,
        embedding_dropout: float = ...,
        input_dropout: float = ...,
        hidden_dropout: float = ...,
        output_dropout: float = ...,
        weight_dropout: float = ...,
        activation_penalty: float = ...,
        slowness_penalty: float = ...,
        init_std: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def cutoffs(self) -> list[int]: ...
    @property
    def div_val(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def d_embed(self) -> int: ...
    @property
    def d_hidden(self) -> int: ...
    @property
    def window(self) -> int: ...
    @property
    def tie_weights(self) -> bool: ...
    @property
    def tie_projections(self) -> list[bool]: ...
    @property
    def embedding_dropout(self) -> float: ...
    @property
    def input_dropout(self) -> float: ...
    @property
    def hidden_dropout(self) -> float: ...
    @property
    def output_dropout(self) -> float: ...
    @property
    def weight_dropout(self) -> float: ...
    @property
    def activation_penalty(self) -> float: ...
    @property
    def slowness_penalty(self) -> float: ...
    @property
    def init_std(self) -> float: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class LoopedTransformerOptions:
    """A language model of recurrent depth: layers before a loop, in it and after it."""

    def __init__(
        self,
        *,
        vocabulary: int = 267735,
        cutoffs: list[int] = [20000, 40000, 200000],
        div_val: int = 1,
        prelude: int = 2,
        core: int = 4,
        coda: int = 2,
        d_model: int = 410,
        d_embed: int = 410,
        heads: int = 10,
        d_head: int = 41,
        d_inner: int = 2100,
        horizon: int = 0,
        pre_ln: bool = False,
        tie_weights: bool = True,
        tie_projections: list[bool] = [False, True, True, True],
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        init_std: float = 0.02,
        start_std: float = 1.0,
    ) -> None: ...
    def replace(
        self,
        *,
        vocabulary: int = ...,
        cutoffs: list[int] = ...,
        div_val: int = ...,
        prelude: int = ...,
        core: int = ...,
        coda: int = ...,
        d_model: int = ...,
        d_embed: int = ...,
        heads: int = ...,
        d_head: int = ...,
        d_inner: int = ...,
        horizon: int = ...,
        pre_ln: bool = ...,
        tie_weights: bool = ...,
        tie_projections: list[bool] = ...,
        dropout: float = ...,
        attention_dropout: float = ...,
        init_std: float = ...,
        start_std: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def cutoffs(self) -> list[int]: ...
    @property
    def div_val(self) -> int: ...
    @property
    def prelude(self) -> int: ...
    @property
    def core(self) -> int: ...
    @property
    def coda(self) -> int: ...
    @property
    def d_model(self) -> int: ...
    @property
    def d_embed(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def d_head(self) -> int: ...
    @property
    def d_inner(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def pre_ln(self) -> bool: ...
    @property
    def tie_weights(self) -> bool: ...
    @property
    def tie_projections(self) -> list[bool]: ...
    @property
    def dropout(self) -> float: ...
    @property
    def attention_dropout(self) -> float: ...
    @property
    def init_std(self) -> float: ...
    @property
    def start_std(self) -> float: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class GPT2Options:
    """GPT-2 as Megatron-LM trains it (Shoeybi et al. 2019). The defaults are its model of 355 million parameters."""

    def __init__(
        self,
        *,
        vocabulary: int = 51200,
        cutoffs: list[int] = [],
        div_val: int = 1,
        layers: int = 24,
        d_model: int = 1024,
        d_embed: int = 1024,
        heads: int = 16,
        d_inner: int = 4096,
        positions: int = 1024,
        tie_weights: bool = True,
        tie_projections: list[bool] = [],
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        init_std: float = 0.02,
    ) -> None: ...
    def replace(
        self,
        *,
        vocabulary: int = ...,
        cutoffs: list[int] = ...,
        div_val: int = ...,
        layers: int = ...,
        d_model: int = ...,
        d_embed: int = ...,
        heads: int = ...,
        d_inner: int = ...,
        positions: int = ...,
        tie_weights: bool = ...,
        tie_projections: list[bool] = ...,
        dropout: float = ...,
        attention_dropout: float = ...,
        init_std: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def cutoffs(self) -> list[int]: ...
    @property
    def div_val(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def d_model(self) -> int: ...
    @property
    def d_embed(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def d_inner(self) -> int: ...
    @property
    def positions(self) -> int: ...
    @property
    def tie_weights(self) -> bool: ...
    @property
    def tie_projections(self) -> list[bool]: ...
    @property
    def dropout(self) -> float: ...
    @property
    def attention_dropout(self) -> float: ...
    @property
    def init_std(self) -> float: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class RelationalMemoryOptions:
    """A language model around a relational memory core (Santoro et al. 2018). The defaults are the authors' for
    WikiText-103."""

    def __init__(
        self,
        *,
        vocabulary: int = 267735,
        cutoffs: list[int] = [20000, 40000, 200000],
        div_val: int = 1,
        d_model: int = 512,
        d_embed: int = 512,
        slots: int = 1,
        heads: int = 4,
        head_size: int = 625,
        blocks: int = 1,
        mlp_layers: int = 5,
        gates: MemoryGates = "unit",
        tie_weights: bool = True,
        tie_projections: list[bool] = [],
        embedding_dropout: float = 0.5,
        output_dropout: float = 0.0,
        init_std: float = 0.02,
    ) -> None: ...
    def replace(
        self,
        *,
        vocabulary: int = ...,
        cutoffs: list[int] = ...,
        div_val: int = ...,
        d_model: int = ...,
        d_embed: int = ...,
        slots: int = ...,
        heads: int = ...,
        head_size: int = ...,
        blocks: int = ...,
        mlp_layers: int = ...,
        gates: MemoryGates = ...,
        tie_weights: bool = ...,
        tie_projections: list[bool] = ...,
        embedding_dropout: float = ...,
        output_dropout: float = ...,
        init_std: float = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def cutoffs(self) -> list[int]: ...
    @property
    def div_val(self) -> int: ...
    @property
    def d_model(self) -> int: ...
    @property
    def d_embed(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def head_size(self) -> int: ...
    @property
    def blocks(self) -> int: ...
    @property
    def mlp_layers(self) -> int: ...
    @property
    def gates(self) -> MemoryGates: ...
    @property
    def tie_weights(self) -> bool: ...
    @property
    def tie_projections(self) -> list[bool]: ...
    @property
    def embedding_dropout(self) -> float: ...
    @property
    def output_dropout(self) -> float: ...
    @property
    def init_std(self) -> float: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class ReasonerOptions:
    """A small network that is applied again and again until its answer settles (Jolicoeur-Martineau 2025). The defaults
    are the Tiny Recursive Model's for Sudoku."""

    def __init__(
        self,
        *,
        vocabulary: int = 11,
        tokens: int = 81,
        width: int = 512,
        layers: int = 2,
        expansion: int = 4,
        inner_multiple: int = 256,
        attention: bool = False,
        heads: int = 8,
        inner_steps: int = 6,
        damping: float = 1.0,
        noise: float = 0.0,
        start: ReasonerStart = "fixed",
    ) -> None: ...
    def replace(
        self,
        *,
        vocabulary: int = ...,
        tokens: int = ...,
        width: int = ...,
        layers: int = ...,
        expansion: int = ...,
        inner_multiple: int = ...,
        attention: bool = ...,
        heads: int = ...,
        inner_steps: int = ...,
        damping: float = ...,
        noise: float = ...,
        start: ReasonerStart = ...,
    ) -> Self:
        """The same with these fields changed."""

    def to_dict(self) -> dict[str, Any]:
        """The fields and their values."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def expansion(self) -> int: ...
    @property
    def inner_multiple(self) -> int: ...
    @property
    def attention(self) -> bool: ...
    @property
    def heads(self) -> int: ...
    @property
    def inner_steps(self) -> int: ...
    @property
    def damping(self) -> float: ...
    @property
    def noise(self) -> float: ...
    @property
    def start(self) -> ReasonerStart: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

def mdeq_preset(name: str) -> MdeqOptions:
    """One of the configurations that the authors released."""

def mdeq_preset_names() -> list[str]:
    """Their names."""

class MdeqClassifier:
    def __init__(self, options: MdeqOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def forward(
        self, images: Tensor, plan: EquilibriumPlan, start: list[Tensor]
    ) -> tuple[Tensor, Equilibrated]: ...

class MonotoneClassifier:
    def __init__(self, options: MonotoneOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def forward(
        self, images: Tensor, plan: EquilibriumPlan, start: list[Tensor]
    ) -> tuple[Tensor, Equilibrated]: ...

class ResNet:
    def __init__(self, options: ResNetOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def forward(self, images: Tensor) -> Tensor: ...

class DenseNet:
    def __init__(self, options: DenseNetOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def forward(self, images: Tensor) -> Tensor: ...

class Inception:
    def __init__(self, options: InceptionOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def forward(self, images: Tensor) -> Tensor: ...

class DeqTransformer:
    def __init__(self, options: TransformerOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def read(
        self, tokens: Tensor, capacity: int, memory: list[Tensor], plan: EquilibriumPlan
    ) -> tuple[Tensor, list[Tensor], Equilibrated]: ...
    def cost(self, hidden: Tensor, targets: Tensor) -> Tensor: ...
    def log_probabilities(self, hidden: Tensor) -> Tensor: ...
    def tied(self) -> list[tuple[str, str]]: ...

class TransformerXL:
    def __init__(self, options: TransformerXLOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def forward(
        self, tokens: Tensor, targets: Tensor, capacity: int, memory: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor], Optional[Tensor]]: ...
    def read(self, tokens: Tensor, capacity: int, memory: list[Tensor]) -> tuple[Tensor, list[Tensor]]: ...
    def log_probabilities(self, hidden: Tensor) -> Tensor: ...
    def tied(self) -> list[tuple[str, str]]: ...

class GPT2:
    def __init__(self, options: GPT2Options, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def forward(
        self, tokens: Tensor, targets: Tensor, capacity: int, memory: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor], Optional[Tensor]]: ...
    def read(self, tokens: Tensor, capacity: int, memory: list[Tensor]) -> tuple[Tensor, list[Tensor]]: ...
    def log_probabilities(self, hidden: Tensor) -> Tensor: ...
    def tied(self) -> list[tuple[str, str]]: ...

class AwdQrnn:
    def __init__(self, options: QrnnOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def forward(
        self, tokens: Tensor, targets: Tensor, capacity: int, memory: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor], Optional[Tensor]]: ...
    def read(self, tokens: Tensor, capacity: int, memory: list[Tensor]) -> tuple[Tensor, list[Tensor]]: ...
    def log_probabilities(self, hidden: Tensor) -> Tensor: ...
    def tied(self) -> list[tuple[str, str]]: ...

class LoopedTransformer:
    def __init__(self, options: LoopedTransformerOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def read(
        self, tokens: Tensor, capacity: int, memory: list[Tensor], plan: EquilibriumPlan
    ) -> tuple[Tensor, list[Tensor], Equilibrated]: ...
    def read_with_exits(
        self, tokens: Tensor, capacity: int, memory: list[Tensor], loops: int, rtol: float
    ) -> tuple[Tensor, list[Tensor], Tensor]: ...
    def cost(self, hidden: Tensor, targets: Tensor) -> Tensor: ...
    def log_probabilities(self, hidden: Tensor) -> Tensor: ...
    def tied(self) -> list[tuple[str, str]]: ...

class RelationalMemory:
    def __init__(self, options: RelationalMemoryOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def forward(
        self, tokens: Tensor, targets: Tensor, capacity: int, memory: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor], Optional[Tensor]]: ...
    def read(self, tokens: Tensor, capacity: int, memory: list[Tensor]) -> tuple[Tensor, list[Tensor]]: ...
    def log_probabilities(self, hidden: Tensor) -> Tensor: ...
    def tied(self) -> list[tuple[str, str]]: ...

class Reasoner:
    def __init__(self, options: ReasonerOptions, generator: Optional[torch.Generator]) -> None: ...
    def named_parameters(self) -> list[tuple[str, Tensor]]: ...
    def named_buffers(self) -> list[tuple[str, Tensor]]: ...
    def train(self, mode: bool) -> None: ...
    def start_of(self, tokens: Tensor, generator: Optional[torch.Generator]) -> list[Tensor]: ...
    def forward(
        self, tokens: Tensor, start: list[Tensor], plan: EquilibriumPlan
    ) -> tuple[Tensor, Tensor, Equilibrated]: ...

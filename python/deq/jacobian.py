"""Penalties on the Jacobian J = ∂f/∂z at an equilibrium, and its spectrum."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Iterable, Optional, Union

import torch
from torch import Tensor

from deq import _core
from deq._compilers import outside_of_compilers
from deq._core import (
    Equilibrated,
    Hutchinson,
    Linearization,
    ProbeKey,
    SpectralRadius,
    SpectralRadiusOptions,
    Tangent,
)

if TYPE_CHECKING:  # names that only the stubs have
    from deq._core import Distribution, SolverOptions

Point = Union[Equilibrated, Linearization]


def _linearization(at: Point) -> Linearization:
    if isinstance(at, Equilibrated):
        return at.linearization()
    if isinstance(at, Linearization):
        return at
    raise TypeError(f"got a {type(at).__name__}, must be what a layer returned or its linearization()")


_COMPILED = (
    "the penalty differentiates f twice, which torch.compile does not support: "
    "give the layer f itself, not torch.compile(f)"
)


def _require_eager(at: Point) -> None:
    if getattr(at, "f_is_compiled", False):
        raise _core.Error(_COMPILED)


def _differentiable(value: Tensor) -> Tensor:
    """Refuses what came through a compiled part of f that nobody could see before."""
    if "torch._dynamo" in sys.modules and _core.has_node([value], [], "CompiledFunctionBackwardBackward"):
        raise _core.Error(_COMPILED)
    return value


@outside_of_compilers
def jacobian_penalty(
    at: Point,
    *,
    probes: int = 1,
    distribution: Distribution = "gaussian",
    key: Optional[ProbeKey] = None,
    generator: Optional[torch.Generator] = None,
) -> Tensor:
    """The paper's penalty, differentiable: the batch mean of ‖J‖²_F / D, estimated by random probes. Add it to the
    loss and call backward() once. The probes come from `key`, else from `generator`, else from torch's own."""
    _require_eager(at)
    options = Hutchinson(probes=probes, distribution=distribution)
    return _differentiable(_core.jacobian_penalty(_linearization(at), options, key, generator))


@outside_of_compilers
def frobenius_squared(
    at: Point,
    *,
    probes: int = 1,
    distribution: Distribution = "gaussian",
    key: Optional[ProbeKey] = None,
    generator: Optional[torch.Generator] = None,
    differentiable: bool = False,
) -> Tensor:
    """An unbiased estimate of ‖J‖²_F for every sample, [B]."""
    if differentiable:
        _require_eager(at)
    options = Hutchinson(probes=probes, distribution=distribution)
    return _differentiable(_core.frobenius_squared(_linearization(at), options, key, generator, differentiable))


@outside_of_compilers
def spectral_penalty(
    at: Point,
    *,
    steps: int = 1,
    probes: int = 1,
    distribution: Distribution = "gaussian",
    key: Optional[ProbeKey] = None,
    generator: Optional[torch.Generator] = None,
) -> Tensor:
    """A penalty on the spectral radius rather than on the whole norm, differentiable: the batch mean of `squared_gain`.
    There is no division by D, so its weight is another than `jacobian_penalty`'s."""
    _require_eager(at)
    start = Hutchinson(probes=probes, distribution=distribution)
    return _differentiable(_core.spectral_penalty(_linearization(at), steps, start, key, generator))


@outside_of_compilers
def squared_gain(
    at: Point,
    *,
    steps: int = 1,
    probes: int = 1,
    distribution: Distribution = "gaussian",
    key: Optional[ProbeKey] = None,
    generator: Optional[torch.Generator] = None,
    differentiable: bool = False,
) -> Tensor:
    """‖vᵀJ‖²/‖v‖² of every sample, [B], where `steps` power steps v ← vᵀJ/‖vᵀJ‖ have turned random probes v. Without
    steps its mean is ‖J‖²_F/D; with more it goes to ρ(J)² where one real eigenvalue dominates or J is normal. It never
    exceeds ‖J‖₂². v is a constant of the graph."""
    if differentiable:
        _require_eager(at)
    start = Hutchinson(probes=probes, distribution=distribution)
    return _differentiable(_core.squared_gain(_linearization(at), steps, start, key, generator, differentiable))


@outside_of_compilers
def linsley_penalty(at: Point, lambda_: float) -> Tensor:
    """The penalty of Linsley et al. (2020), ‖(1ᵀJ − λ)⁺‖₂ averaged over the batch. For comparison only."""
    _require_eager(at)
    return _differentiable(_core.linsley_penalty(_linearization(at), lambda_))


@outside_of_compilers
def spectral_radius(
    at: Point,
    *,
    krylov_dim: int = 24,
    max_products: int = 200,
    tolerance: float = 1e-4,
    generator: Optional[torch.Generator] = None,
) -> SpectralRadius:
    """The spectral radius of every sample's J by Arnoldi's method, right for complex pairs too. It stops at
    ‖Jv − λv‖ ≤ tolerance·|λ|, or after `max_products` products with J."""
    options = SpectralRadiusOptions(krylov_dim=krylov_dim, max_products=max_products, tolerance=tolerance)
    return _core.spectral_radius(_linearization(at), options, generator)


@outside_of_compilers
def dense_jacobian(at: Point) -> Tensor:
    """J itself, [B, D, D], at the cost of D products: for small problems and tests."""
    return _core.dense_jacobian(_linearization(at))


@outside_of_compilers
def tangent(
    at: Point, moves: Iterable[tuple[Tensor, Tensor]], *, solver: SolverOptions = _core.Broyden(rtol=1e-4)
) -> Tangent:
    """Forward mode: where z* goes when tensors that f depends on move, each given with its direction. Solves
    ż = Jż + Σ ∂f/∂t ṫ."""
    _require_eager(at)
    pairs = list(moves)
    for i, pair in enumerate(pairs):
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(part, Tensor) for part in pair)
        if not is_pair:
            raise TypeError(f"moves[{i}] is a {type(pair).__name__}, must be a pair (tensor, direction), as in [(x, direction)]")
    return _core.tangent(_linearization(at), pairs, solver)

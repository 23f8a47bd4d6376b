"""Penalties on the Jacobian J = ∂f/∂z at an equilibrium, and its spectrum."""

from __future__ import annotations

from typing import Any, Optional, Union

import torch
from torch import Tensor

from deq import _core
from deq._core import Equilibrated, Hutchinson, Linearization, ProbeKey, SpectralRadius, SpectralRadiusOptions

Point = Union[Equilibrated, Linearization]


def _linearization(at: Point) -> Linearization:
    if isinstance(at, Equilibrated):
        return at.linearization()
    if isinstance(at, Linearization):
        return at
    raise TypeError(f"got a {type(at).__name__}, must be what a layer returned or its linearization()")


def _require_eager(at: Point) -> None:
    if getattr(at, "f_is_compiled", False):
        raise _core.Error(
            "the penalty differentiates f twice, which torch.compile does not support: "
            "give the layer f itself, not torch.compile(f)"
        )


def jacobian_penalty(
    at: Point,
    *,
    key: Optional[ProbeKey] = None,
    generator: Optional[torch.Generator] = None,
    **options: Any,
) -> Tensor:
    """The paper's penalty, differentiable: the batch mean of ‖J‖²_F / D, estimated by random probes.

    Options are those of `Hutchinson`: probes, distribution. Add the penalty to the loss and call backward() once.
    """
    _require_eager(at)
    return _core.jacobian_penalty(_linearization(at), Hutchinson(**options), key, generator)


def frobenius_squared(
    at: Point,
    *,
    key: Optional[ProbeKey] = None,
    generator: Optional[torch.Generator] = None,
    differentiable: bool = False,
    **options: Any,
) -> Tensor:
    """An unbiased estimate of ‖J‖²_F for every sample, [B]. Options are those of `Hutchinson`."""
    if differentiable:
        _require_eager(at)
    return _core.frobenius_squared(_linearization(at), Hutchinson(**options), key, generator, differentiable)


def linsley_penalty(at: Point, lambda_: float) -> Tensor:
    """The penalty of Linsley et al. (2020), ‖(1ᵀJ − λ)⁺‖₂ averaged over the batch. For comparison only."""
    _require_eager(at)
    return _core.linsley_penalty(_linearization(at), lambda_)


def spectral_radius(at: Point, *, generator: Optional[torch.Generator] = None, **options: Any) -> SpectralRadius:
    """The spectral radius of every sample's J, right for complex pairs too.

    Options are those of `SpectralRadiusOptions`: krylov_dim, max_products, tolerance.
    """
    return _core.spectral_radius(_linearization(at), SpectralRadiusOptions(**options), generator)


def dense_jacobian(at: Point) -> Tensor:
    """J itself, [B, D, D], at the cost of D products: for small problems and tests."""
    return _core.dense_jacobian(_linearization(at))

"""For those who come from torchdeq: get_deq takes what that library's takes, and returns the same tuple."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import torch
from torch import Tensor

from deq import _core
from deq._core import Anderson, Broyden, EquilibriumOptions, Implicit, Phantom, Picard, Report
from deq.jacobian import spectral_radius
from deq.layer import fixed_point

Solution = Union[Tensor, list[Tensor]]

_DEFAULTS: dict[str, Any] = {
    "f_solver": "fixed_point_iter",
    "b_solver": "fixed_point_iter",
    "f_max_iter": 40,
    "b_max_iter": 40,
    "f_tol": 1e-3,
    "b_tol": 1e-6,
    "f_stop_mode": "abs",
    "b_stop_mode": "abs",
    "eval_factor": 1.0,
    "eval_f_max_iter": 0,
    "ift": False,
    "hook_ift": False,
    "grad": 1,
    "tau": 1.0,
}
# What is there for states on the way to the fixed point, which are not given out here.
_WITHOUT_EQUAL = ("n_states", "indexing", "sup_gap", "sup_loc", "no_stat", "core")


def get_deq(args: Optional[Mapping[str, Any]] = None, **options: Any) -> TorchdeqLayer:
    """A layer with torchdeq's options and results: `z_out, info = get_deq(...)(f, z_init)`.

    Unknown options are refused; torchdeq ignores them. It warns where a name means something else here."""
    given = {**(dict(args) if args is not None else {}), **options}
    for name in given:
        if name in _WITHOUT_EQUAL:
            raise _core.Error(f"get_deq: there is no equal of {name} here: only the fixed point is returned")
        if name not in _DEFAULTS:
            raise TypeError(f"get_deq has no option {name!r}; it has {', '.join(_DEFAULTS)}")
    chosen = {**_DEFAULTS, **given}
    if not chosen["ift"] and not chosen["hook_ift"] and "grad" not in given:
        warnings.warn(
            "get_deq without ift=True gives the gradient of one phantom step, as torchdeq's does; "
            "ift=True, or deq.Equilibrium, gives the exact one",
            stacklevel=2,
        )
    if chosen["hook_ift"]:
        warnings.warn("hook_ift is what ift is here: no hook is needed", stacklevel=2)
    if isinstance(chosen["grad"], (list, tuple)):
        raise _core.Error("get_deq: grad is a list, must be one number: only the fixed point is returned")
    return TorchdeqLayer(chosen)


class TorchdeqLayer(torch.nn.Module):
    """Called as torchdeq's: with f(z) and z_init, a tensor or a list of tensors."""

    def __init__(self, chosen: Mapping[str, Any]) -> None:
        super().__init__()
        self.chosen = dict(chosen)
        exact = chosen["ift"] or chosen["hook_ift"]
        self.gradient = (
            Implicit(solver=_solver(chosen, "b", chosen["b_max_iter"]))
            if exact
            else Phantom(steps=chosen["grad"], tau=float(chosen["tau"]))
        )
        self.eval_max_iter = chosen["eval_f_max_iter"] or int(chosen["f_max_iter"] * chosen["eval_factor"])
        EquilibriumOptions(forward=_solver(chosen, "f", self.eval_max_iter), gradient=self.gradient)

    def forward(
        self,
        func: Callable[..., Any],
        z_init: Union[Tensor, Sequence[Tensor]],
        solver_kwargs: Optional[Mapping[str, Any]] = None,
        sradius_mode: bool = False,
    ) -> tuple[list[Solution], dict[str, Tensor]]:
        """([z*], info): the fixed point in a list, and how the solve went, with a number for every sample."""
        is_single = isinstance(z_init, Tensor)
        start = (z_init,) if isinstance(z_init, Tensor) else tuple(z_init)
        overrides = dict(solver_kwargs or {})
        budget = overrides.pop("f_max_iter", self.chosen["f_max_iter"] if self.training else self.eval_max_iter)
        if overrides:
            raise TypeError(f"solver_kwargs has no option {next(iter(overrides))!r}; it has f_max_iter")

        def f(z: Any) -> Any:
            return func(z) if is_single else func(*(z if isinstance(z, tuple) else (z,)))

        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            eq = fixed_point(f, start, forward=_solver(self.chosen, "f", budget), gradient=self.gradient)
        radius = spectral_radius(eq).rho if sradius_mode and not self.training else [0.0]
        info = {**_statistics(eq.report, start[0].device), "sradius": torch.tensor(radius, device=start[0].device)}
        return [eq.z if is_single else list(eq.state)], info


def _solver(chosen: Mapping[str, Any], side: str, max_iter: int) -> Union[Picard, Anderson, Broyden]:
    tolerance = chosen[f"{side}_tol"]
    mode = chosen[f"{side}_stop_mode"]
    if mode not in ("abs", "rel"):
        raise _core.Error(f"get_deq: {side}_stop_mode is {mode!r}, must be 'abs' or 'rel'")
    atol, rtol = (tolerance, 0.0) if mode == "abs" else (0.0, tolerance)
    name = chosen[f"{side}_solver"]
    # The adjoint's start costs nothing here. Broyden's start torchdeq does not count.
    evals = max(max_iter - 1, 1) if side == "b" else max_iter
    if name in ("fixed_point_iter", "simple_fixed_point_iter"):
        return Picard(max_evals=evals, atol=atol, rtol=rtol)
    if name == "anderson":
        return Anderson(max_evals=evals, atol=atol, rtol=rtol)
    if name == "broyden":
        return Broyden(max_evals=evals + 1, atol=atol, rtol=rtol)
    raise _core.Error(f"get_deq: {side}_solver is {name!r}, must be 'fixed_point_iter', 'anderson' or 'broyden'")


def _statistics(report: Report, device: torch.device) -> dict[str, Tensor]:
    """torchdeq's names. A trace is the mean over the samples that were still solved for, as one row."""
    samples, trace = report.samples, report.trace
    return {
        "nstep": torch.tensor([float(sample.evaluations) for sample in samples], device=device),
        "abs_lowest": torch.tensor([sample.absolute for sample in samples], device=device),
        "rel_lowest": torch.tensor([sample.relative for sample in samples], device=device),
        "abs_trace": torch.tensor([[point.mean_absolute for point in trace]], device=device),
        "rel_trace": torch.tensor([[point.mean_relative for point in trace]], device=device),
    }

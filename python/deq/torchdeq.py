"""For those who come from torchdeq: get_deq takes what that library's takes, and returns the same tuple."""

from __future__ import annotations

import argparse
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
# What is there for states on the way to the fixed point, which are not given out here: what leaves them out is taken.
_WITHOUT_EQUAL: dict[str, Callable[[Any], bool]] = {
    "core": lambda value: value in ("sliced", "indexing"),
    "n_states": lambda value: value == 1,
    "indexing": lambda value: not value,
    "sup_gap": lambda value: value <= 0,
    "sup_loc": lambda value: not value,
}
# What torchdeq's parser defines for other parts of a script, with its defaults, and where they go here.
_OF_OTHERS: dict[str, tuple[Any, str]] = {
    "no_stat": (None, "every solve keeps its statistics"),
    "gamma": (0.8, "it weighs states on the way, which are not given out here"),
    "norm_type": ("weight_norm", "normalise in prepare() of a deq.Cell"),
    "norm_no_scale": (False, "normalise in prepare() of a deq.Cell"),
    "norm_clip": (False, "normalise in prepare() of a deq.Cell"),
    "norm_clip_value": (1.0, "normalise in prepare() of a deq.Cell"),
    "norm_target_norm": (1.0, "normalise in prepare() of a deq.Cell"),
    "sn_n_power_iters": (1, "normalise in prepare() of a deq.Cell"),
    "jac_loss_weight": (0.0, "add deq.jacobian_penalty(eq) to the loss"),
    "jac_loss_freq": (0.0, "add deq.jacobian_penalty(eq) to the loss"),
    "jac_incremental": (0, "deq.Schedule describes a strength that grows"),
    "sradius_mode": (False, "give it to the call, or use deq.spectral_radius(eq)"),
}
# What a solver of torchdeq's takes in solver_kwargs, and what that is here.
_SOLVER_KWARGS: dict[type, dict[str, str]] = {
    Picard: {"tau": "damping"},
    Anderson: {"m": "memory", "lam": "ridge", "tau": "beta"},
    Broyden: {"LBFGS_thres": "memory", "ls": "line_search"},
}


def get_deq(args: Union[Mapping[str, Any], argparse.Namespace, None] = None, **options: Any) -> TorchdeqLayer:
    """A layer with torchdeq's options and results: `z_out, info = get_deq(...)(f, z_init)`.

    Unknown options are refused; torchdeq ignores them, and so are those of an argparse.Namespace, which has the script's
    own as well. It warns where a name means something else here, or nothing."""
    given = {**_as_mapping(args), **options}
    if isinstance(args, argparse.Namespace):
        given = {name: value for name, value in given.items() if name in options or _is_known(name)}
    for name, value in given.items():
        _require_known(name, value)
    chosen = {**_DEFAULTS, **{name: value for name, value in given.items() if name in _DEFAULTS}}
    chosen["grad"] = _one_number(chosen["grad"])
    for text in _differences(given, chosen):
        warnings.warn(text, stacklevel=2)
    return TorchdeqLayer(chosen)


def _as_mapping(args: Union[Mapping[str, Any], argparse.Namespace, None]) -> dict[str, Any]:
    if args is None:
        return {}
    if isinstance(args, argparse.Namespace):
        return vars(args)
    if isinstance(args, Mapping):
        return dict(args)
    raise TypeError(f"get_deq: args is a {type(args).__name__}, must be an argparse.Namespace or a mapping")


def _is_known(name: str) -> bool:
    return name in _DEFAULTS or name in _WITHOUT_EQUAL or name in _OF_OTHERS


def _require_known(name: str, value: Any) -> None:
    if not _is_known(name):
        raise TypeError(f"get_deq has no option {name!r}; it has {', '.join(_DEFAULTS)}")
    if name in _WITHOUT_EQUAL and not _WITHOUT_EQUAL[name](value):
        raise _core.Error(f"get_deq: there is no equal of {name}={value!r} here: only the fixed point is returned")


def _one_number(grad: Any) -> Any:
    if not isinstance(grad, (list, tuple)):
        return grad
    if len(grad) != 1:
        raise _core.Error(f"get_deq: grad is {grad!r}, must be one number: only the fixed point is returned")
    return grad[0]


def _differences(given: Mapping[str, Any], chosen: Mapping[str, Any]) -> list[str]:
    """What a script should know that goes on with torchdeq's names."""
    found = []
    if not chosen["ift"] and not chosen["hook_ift"] and "grad" not in given:
        found.append(
            "get_deq without ift=True gives the gradient of one phantom step, as torchdeq's does; "
            "ift=True, or deq.Equilibrium, gives the exact one"
        )
    if chosen["hook_ift"]:
        found.append("hook_ift is what ift is here: no hook is needed")
    if "f_tol" in given or "f_stop_mode" in given:
        found.append(
            "f_tol stops every sample by its own residual; in torchdeq all go on until the last one has met it, "
            "so that the others end below it"
        )
    if chosen["f_solver"] == "simple_fixed_point_iter":
        found.append("simple_fixed_point_iter makes all its steps, as torchdeq's does, but its best state is returned")
    unused = [name for name, value in given.items() if name in _OF_OTHERS and value != _OF_OTHERS[name][0]]
    found += [f"get_deq does not use {name}: {_OF_OTHERS[name][1]}" for name in unused]
    return found


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

    def options(self, solver_kwargs: Optional[Mapping[str, Any]] = None) -> EquilibriumOptions:
        """Those that this layer's next call has, in its mode."""
        changes = dict(solver_kwargs or {})
        budget = changes.pop("f_max_iter", self.chosen["f_max_iter"] if self.training else self.eval_max_iter)
        solver = _changed(_solver(self.chosen, "f", int(budget)), changes)
        return EquilibriumOptions(forward=solver, gradient=self.gradient)

    def forward(
        self,
        func: Callable[..., Any],
        z_init: Union[Tensor, Sequence[Tensor]],
        solver_kwargs: Optional[Mapping[str, Any]] = None,
        sradius_mode: bool = False,
        backward_writer: Optional[Callable[[dict[str, Tensor]], Any]] = None,
    ) -> tuple[list[Solution], dict[str, Tensor]]:
        """([z*], info): the fixed point in a list, and how the solve went, with a number for every sample.
        `backward_writer` gets such numbers of the gradient's solve, in backward()."""
        is_single = isinstance(z_init, Tensor)
        start = (z_init,) if isinstance(z_init, Tensor) else tuple(z_init)
        options = self.options(solver_kwargs)

        def f(z: Any) -> Any:
            return func(z) if is_single else func(*(z if isinstance(z, tuple) else (z,)))

        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            eq = fixed_point(f, start, forward=options.forward, gradient=options.gradient)
        if backward_writer is not None:
            device = eq.z.device
            _core.tell_of_adjoint(eq, lambda adjoint: backward_writer(_statistics(adjoint, device)))
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
    if name == "fixed_point_iter":
        return Picard(max_evals=evals, atol=atol, rtol=rtol)
    if name == "simple_fixed_point_iter":
        return Picard(max_evals=evals, atol=0.0, rtol=0.0, stagnation_window=0)
    if name == "anderson":
        return Anderson(max_evals=evals, atol=atol, rtol=rtol)
    if name == "broyden":
        return Broyden(max_evals=evals + 1, atol=atol, rtol=rtol)
    raise _core.Error(
        f"get_deq: {side}_solver is {name!r}, must be 'fixed_point_iter', 'simple_fixed_point_iter', 'anderson' or 'broyden'"
    )


def _changed(solver: Any, changes: Mapping[str, Any]) -> Any:
    """The solver with these of torchdeq's solver_kwargs. Those that are None, or False, are what they are without."""
    names = _SOLVER_KWARGS[type(solver)]
    for name, value in changes.items():
        if name == "return_final" and value:
            raise _core.Error("solver_kwargs: there is no equal of return_final here: the best state is returned")
        if name not in names and name != "return_final":
            raise TypeError(f"solver_kwargs has no option {name!r}; it has f_max_iter, {', '.join(names)}")
    own = {names[name]: value for name, value in changes.items() if name in names and value is not None}
    if "ridge" in own:
        own["ridge_scale"] = "absolute"
    return solver.replace(**own)


def _statistics(report: Report, device: torch.device) -> dict[str, Tensor]:
    """torchdeq's names. A trace is the mean over the samples that were still solved for, as one row."""
    trace, kind = report.trace, torch.get_default_dtype()
    return {
        "nstep": report.sample_evaluations.to(device, kind),
        "abs_lowest": report.absolute.to(device, kind),
        "rel_lowest": report.relative.to(device, kind),
        "abs_trace": torch.tensor([[point.mean_absolute for point in trace]], device=device),
        "rel_trace": torch.tensor([[point.mean_relative for point in trace]], device=device),
    }

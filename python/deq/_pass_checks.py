"""What is refused at the door of a pass."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from deq import _core
from deq._core import EquilibriumPlan, Solver


def refuse_transforms() -> None:
    """A solve in C++ sees neither the wrapped tensors of torch.func nor the tangents of forward-mode autograd."""
    # torch has no public name for either.
    if torch._C._functorch.peek_interpreter_stack() is None and forward_ad._current_level < 0:
        return
    raise _core.Error(
        "an equilibrium cannot be solved inside of torch.func.grad, vjp, jvp or vmap, nor of forward_ad.dual_level(): use "
        "ordinary autograd (backward, torch.autograd.grad), or deq.tangent for forward mode"
    )


def require_plan(plan: Any) -> None:
    if plan is not None and not isinstance(plan, EquilibriumPlan):
        raise TypeError(f"plan is a {type(plan).__name__}, must be a deq.EquilibriumPlan, as deq.EquilibriumPlan(options) makes")


def require_solver(solver: Any) -> None:
    if solver is not None and not isinstance(solver, Solver):
        raise TypeError(f"solver is a {type(solver).__name__}, must be a deq.Solver, as deq.Solver(options) makes")


def require_callback(callback: Any) -> None:
    if callback is not None and not callable(callback):
        raise TypeError(f"callback is a {type(callback).__name__}, must be a function of a deq.Progress")

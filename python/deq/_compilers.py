"""torch.compile around a layer, and inside of one."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, ContextManager, Optional, TypeVar

import torch
from typing_extensions import ParamSpec

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def outside_of_compilers(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """torch.compile breaks its graph at `function` and does not look into it.

    Its imports take seconds, so only who has loaded them already meets them here."""
    disabled: Optional[Callable[Arguments, Result]] = None

    @functools.wraps(function)
    def called(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        nonlocal disabled
        if "torch._dynamo" not in sys.modules:
            return function(*arguments, **options)
        if disabled is None:
            disabled = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
        return disabled(*arguments, **options)

    return called


def is_compiled(f: Callable[..., Any]) -> bool:
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


def many_products_of_one_graph() -> ContextManager[Any]:
    """An adjoint solve goes through one graph many times, so no compiled graph may give its memory away."""
    import torch._functorch.config as config

    return config.patch(donated_buffer=False)  # type: ignore[no-any-return]

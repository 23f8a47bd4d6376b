"""torch.compile around a layer, and inside of one."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Callable, Iterator, Optional, TypeVar

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
    return "torch._dynamo" in sys.modules and any(hasattr(part, _MARK) for part in visible_parts(f))


def uses_graphs_of_its_own(f: Callable[..., Any]) -> bool:
    """Whether torch.compile records f for a GPU, as with mode="reduce-overhead"."""
    if "torch._dynamo" not in sys.modules:
        return False
    configurations = [getattr(part, _MARK)() for part in visible_parts(f) if hasattr(part, _MARK)]
    return any(configuration and configuration.get("triton.cudagraphs") for configuration in configurations)


def inside_of_compiled(f: Callable[..., Any]) -> Any:
    """The module that torch.compile was given, where f is what it returned."""
    return getattr(f, "_orig_mod", None)


def may_give_memory_away() -> bool:
    """Whether a graph that was compiled can be differentiated only once."""
    if "torch._dynamo" not in sys.modules:
        return False
    import torch._functorch.config as config

    return bool(config.donated_buffer)


def keep_memory() -> None:
    """Lets compiled graphs keep what they have saved: a solve for a gradient goes through f's graph many times, and torch
    otherwise lets the first time overwrite it.

    For good and for the whole process, because torch compiles a backward, and looks at this setting, only when it is
    needed; and by forgetting what has been compiled, which would go on overwriting, without a word."""
    if not may_give_memory_away():
        return
    import torch._functorch.config as config

    config.donated_buffer = False
    torch._dynamo.reset()


# What torch.compile's results have and those of torch.compiler.disable have not.
_MARK = "get_compiler_config"


def visible_parts(f: Any) -> Iterator[Any]:
    """f, its modules and their attributes, and what a function holds, with the modules in it."""
    yield f
    if isinstance(f, torch.nn.Module):
        for module in f.modules():
            yield module
            step = getattr(module, "step", None)  # of a Cell, which is then what is called
            yield step
            yield from (part for name, part in vars(module).items() if step is None or name != "_compiled_call_impl")
    for cell in getattr(f, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # one that is still empty
            yield cell.cell_contents
            if isinstance(cell.cell_contents, torch.nn.Module):
                yield from visible_parts(cell.cell_contents)

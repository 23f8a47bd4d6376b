"""Faster kernels for what an f of plain PyTorch computes."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from deq import _core


class OwnKernels(TorchFunctionMode):
    """Within it the group norms of images are libdeq's, which want the channels last, and convolutions get their images in
    that order: then neither copies what the other one made. The results are torch's, up to rounding."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Optional[dict[str, Any]] = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.group_norm:
            return _group_norm(*args, **kwargs)
        if func is torch.conv2d and args and args[0].dim() == 4:
            args = (args[0].contiguous(memory_format=torch.channels_last), *args[1:])
        return func(*args, **kwargs)


def with_own_kernels(f: Callable[..., Any]) -> Callable[..., Any]:
    """f; on a GPU it uses `OwnKernels`."""

    def evaluated(z: Any, *inputs: Any) -> Any:
        if not (z if isinstance(z, Tensor) else z[0]).is_cuda:
            return f(z, *inputs)
        with OwnKernels():
            return f(z, *inputs)

    return evaluated


def _group_norm(
    input: Tensor, num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-5
) -> Tensor:
    # Autocast has torch's norm computed in float32, and its result stays so.
    kind = torch.float32 if torch.is_autocast_enabled(input.device.type) and input.dtype.itemsize == 2 else input.dtype
    if input.dim() == 4 and _core.group_norm_serves(input, weight, num_groups, eps, kind):
        return _core.group_norm(input, weight, bias, num_groups, eps, kind)
    return torch.nn.functional.group_norm(input, num_groups, weight, bias, eps)

"""Dropout inside an equilibrium."""

from __future__ import annotations

from typing import Optional, Sequence

import torch
from torch import Tensor

from deq import _core


class VariationalDropout(torch.nn.Module):
    """Dropout whose mask holds for a whole solve: one that changed from step to step would leave f without a
    fixed point. Make the mask in `prepare` and multiply by it in `step`."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise _core.Error(f"variational dropout: rate = {rate:g}, must be in [0, 1)")
        self.rate = rate

    def mask(self, shape: Sequence[int], like: Tensor) -> Optional[Tensor]:
        """Entries 0, or 1/(1 − rate) where they are kept, with `like`'s type and device. None in eval mode and
        at rate 0: then there is nothing to multiply by. Size 1 where a dimension shares one decision."""
        if not self.training or self.rate == 0:
            return None
        keep = 1 - self.rate
        return torch.empty(shape, dtype=like.dtype, device=like.device).bernoulli_(keep).div_(keep)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"

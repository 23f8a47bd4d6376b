"""Modules whose tensors are those that C++ computes with."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor
from typing_extensions import Self

from deq import _core


class Shared(torch.nn.Module):
    """A module around one of _core's, made of its parameters and buffers, not of copies."""

    core: Any

    def _share(self, core: Any) -> None:
        self.core = core
        self._shared: list[tuple[dict[str, Optional[Tensor]], str, Tensor, str]] = []
        for name, tensor in self.core.named_parameters():
            tensor._is_param = True  # what makes a tensor a torch.nn.Parameter
            owner, own_name = _owner(self, name)
            owner._parameters[own_name] = tensor
            self._shared.append((owner._parameters, own_name, tensor, name))  # type: ignore[arg-type]
        for name, tensor in self.core.named_buffers():
            owner, own_name = _owner(self, name)
            owner._buffers[own_name] = tensor
            self._shared.append((owner._buffers, own_name, tensor, name))

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """A parameter keeps its tensor when it is moved or converted; a buffer is made to."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, tensor in self.core.named_buffers():
            owner, own_name = _owner(self, name)
            moved = owner._buffers[own_name]
            assert moved is not None
            tensor.data = moved
            owner._buffers[own_name] = tensor
        return self

    def _require_shared(self) -> None:
        """C++ computes with the tensors that it made, whatever Python puts in their stead."""
        for tensors, own_name, tensor, name in self._shared:
            if tensors.get(own_name) is not tensor:
                raise _core.Error(
                    f"{name} is another tensor than the one that the model computes with: write into that one, by "
                    "load_state_dict() or copy_(), and leave it where it is"
                )

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """As a module's, but for `assign`: the tensors here are those that C++ computes with."""
        if assign:
            raise _core.Error(
                "load_state_dict(assign=True) would give the model tensors that C++ does not compute with: load without "
                "assign, which copies, and move the model with to()"
            )
        return super().load_state_dict(state_dict, strict)


def _owner(root: torch.nn.Module, name: str) -> tuple[torch.nn.Module, str]:
    """The module that a dotted name belongs to, made where it is not there yet, and its last part."""
    *path, own_name = name.split(".")
    for part in path:
        if part not in root._modules:
            root._modules[part] = torch.nn.Module()
        child = root._modules[part]
        assert child is not None
        root = child
    return root, own_name

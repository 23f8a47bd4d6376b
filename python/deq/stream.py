"""Warm starts over inputs that follow each other."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from deq import _core
from deq._compilers import outside_of_compilers
from deq._core import Equilibrated, StreamCost
from deq.layer import Equilibrium


class Stream:
    """Equilibria of inputs that follow each other and change little, such as the pictures of a video.

    Each solve begins where the one before ended, sample by sample; it begins at the layer's own start at first, where
    inputs have another shape, type or device, and for samples whose last solve stagnated, diverged or was not finite.
    Without gradients; the layer must be in eval mode. With `extrapolate`, from 0 to 1, a solve begins so much further along
    the way from the last but one equilibrium to the last: for inputs that go on moving as they did. With `compare_every`, one
    in so many inputs is solved from the layer's own start as well, to know what is saved. Serves one stream, one thread."""

    def __init__(self, layer: Equilibrium, *, compare_every: int = 0, extrapolate: float = 0.0) -> None:
        if not isinstance(layer, Equilibrium):
            raise TypeError(f"layer is a {type(layer).__name__}, must be a deq.Equilibrium")
        self.layer = layer
        self._solved = layer._current()
        self._stream = _core.LayerStream(self._solved, compare_every, extrapolate)

    @outside_of_compilers
    def next(self, *inputs: Tensor) -> Equilibrated:
        """The equilibrium of these inputs."""
        if self.layer._current() is not self._solved:
            raise _core.Error("the layer of this stream got another f, initial_state or options: make a new deq.Stream of it")
        with torch.no_grad():
            return self.layer._passed(inputs, (), functools.partial(self._stream.next, inputs, self.layer.training))

    def reset(self) -> None:
        """The next input begins anew, as after a cut. The cost is kept."""
        self._stream.reset()

    @property
    def cost(self) -> StreamCost:
        """What it has cost so far."""
        return self._stream.cost

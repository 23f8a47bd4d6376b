"""Anderson's weights with a learnt correction, and what trains it."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from deq import _core
from deq._compilers import outside_of_compilers
from deq._shared import Shared


class LearntMixing(Shared):
    """Corrects α and β of Anderson's steps by a small network, whose inputs are angles and relative lengths of the
    residuals: one serves states of every size. A new one changes nothing, to the bit. Give it to a solver of the same
    memory, `Anderson(mixing=...)`, and train its parameters by `mixing_loss`. Solves read the
    parameters that it was made with, in place: others put in their place are not seen."""

    def __init__(self, memory: int = 6, hidden: int = 32, generator: Optional[torch.Generator] = None) -> None:
        super().__init__()
        self.memory, self.hidden = memory, hidden
        self._share(_core.LearntMixingCore(memory, hidden, generator))

    def __repr__(self) -> str:
        return f"LearntMixing(memory={self.memory}, hidden={self.hidden})"

    def __reduce__(self) -> Any:
        """copy.deepcopy and pickle make one again from its sizes and its state."""
        frozen = [name for name, parameter in self.named_parameters() if not parameter.requires_grad]
        return _made_again, (self.memory, self.hidden, self.state_dict(), frozen, self.training)


def _made_again(memory: int, hidden: int, state: dict[str, Tensor], frozen: list[str], training: bool) -> LearntMixing:
    mixing = LearntMixing(memory, hidden)
    mixing.to(next(iter(state.values())))
    mixing.load_state_dict(state)
    for name in frozen:
        mixing.get_parameter(name).requires_grad_(False)
    return mixing.train(training)


@outside_of_compilers
def mixing_loss(
    f: Callable[[Tensor], Tensor], z0: Tensor, z_star: Tensor, solver: _core.Anderson, *, closeness: float = 1e-3
) -> Tensor:
    """What trains `solver.mixing`: how far the solver's iterates z₁, z₂, … within `max_evals` are from z* = f(z*),
    relative to the start z0 [B, ...], later ones weighing more, and `closeness` times how far its α are from least
    squares. Gradients reach the parameters of the mixing only: f, z0 and z* are constants."""
    for name, given in (("z0", z0), ("z_star", z_star)):
        if not isinstance(given, Tensor):
            raise TypeError(f"{name} is a {type(given).__name__}, must be a tensor")
        if given.dim() == 0:
            raise _core.Error(f"{name} is a single number, must be a tensor [B, ...]")
    if not isinstance(solver, _core.Anderson):
        raise TypeError(f"solver is a {type(solver).__name__}, must be an Anderson with a mixing")
    if solver.mixing is not None:
        solver.mixing._require_shared()

    def on_slab(slab: Tensor) -> Tensor:
        value = f(slab.reshape(z0.shape))
        if not isinstance(value, Tensor) or value.shape != z0.shape:
            got = list(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise _core.Error(f"f returned {got}, must return a tensor like z0, {list(z0.shape)}")
        return as_slab(value)

    def as_slab(z: Tensor) -> Tensor:
        return z.flatten(1) if z.dim() > 1 else z.unsqueeze(1)

    return _core.mixing_loss(on_slab, as_slab(z0), as_slab(z_star), solver, closeness)

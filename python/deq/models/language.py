"""The networks that read text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from torch import Tensor

from deq import _core
from deq._compilers import outside_of_compilers
from deq._core import (
    Equilibrated,
    EquilibriumPlan,
    GPT2Options,
    LoopedTransformerOptions,
    QrnnOptions,
    RelationalMemoryOptions,
    TransformerOptions,
    TransformerXLOptions,
)
from deq.models._model import Model


class TextOutput(NamedTuple):
    """What a language model gives for a piece of text."""

    hidden: Tensor  # [B, T, d_model]: what words are predicted from
    nll: Optional[Tensor]  # −log p of every target [B, T]
    memory: tuple[Tensor, ...]  # for the piece that follows
    equilibrium: Optional[Equilibrated]
    penalty: Optional[Tensor] = None  # of its own, which a training adds to the mean of nll


class LoopedOutput(NamedTuple):
    """What a looped language model gives where positions leave the loop by themselves."""

    hidden: Tensor  # [B, T, d_model]
    nll: Optional[Tensor]  # −log p of every target [B, T]
    memory: tuple[Tensor, ...]  # for the piece that follows
    loops: Tensor  # that each position took [B, T]


class LanguageModel(Model):
    """What the language models have in common."""

    core: Union[
        _core.DeqTransformer,
        _core.LoopedTransformer,
        _core.TransformerXL,
        _core.GPT2,
        _core.AwdQrnn,
        _core.RelationalMemory,
    ]

    @outside_of_compilers
    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """log p of every word as the next one, [..., vocabulary]."""
        self._require_shared()
        return self.core.log_probabilities(hidden)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        return super().load_state_dict(_without_repeats(state_dict, self.core.tied()), strict, assign)


class EquilibriumLanguageModel(LanguageModel):
    """What the language models with an equilibrium have in common."""

    core: Union[_core.DeqTransformer, _core.LoopedTransformer]

    @outside_of_compilers
    def forward(
        self,
        tokens: Tensor,
        targets: Optional[Tensor] = None,
        *,
        memory: tuple[Tensor, ...] = (),
        capacity: int = 0,
        plan: Optional[EquilibriumPlan] = None,
    ) -> TextOutput:
        """Reads tokens [B, T], and with targets gives the cost of each. `capacity` positions are remembered: give
        the `memory` of one output to the next call."""
        self._require_shared()
        hidden, after, equilibrium = self.core.read(tokens, capacity, list(memory), self._plan_of_pass(plan))
        self._notice.look_at(equilibrium)
        nll = None if targets is None else self.core.cost(hidden, targets)
        return TextOutput(hidden, nll, tuple(after), equilibrium)

    if TYPE_CHECKING:
        __call__ = forward


class DEQTransformer(EquilibriumLanguageModel):
    """The DEQ-Transformer. Options are those of `TransformerOptions` and of `EquilibriumOptions`."""

    options_type = TransformerOptions
    core_type = _core.DeqTransformer
    core: _core.DeqTransformer


class LoopedTransformer(EquilibriumLanguageModel):
    """A Transformer some of whose layers are looped. Options are those of `LoopedTransformerOptions` and of
    `EquilibriumOptions`; with `gradient=deq.Unrolled(steps=n)` it takes n loops."""

    options_type = LoopedTransformerOptions
    core_type = _core.LoopedTransformer
    core: _core.LoopedTransformer

    @outside_of_compilers
    def read_with_exits(
        self,
        tokens: Tensor,
        targets: Optional[Tensor] = None,
        *,
        loops: int,
        rtol: float,
        memory: tuple[Tensor, ...] = (),
        capacity: int = 0,
    ) -> LoopedOutput:
        """As forward(), by `loops` loops at most: a position leaves, and stays as it is, after the one in which its state
        has changed by no more than `rtol`, relatively."""
        self._require_shared()
        hidden, after, taken = self.core.read_with_exits(tokens, capacity, list(memory), loops, rtol)
        nll = None if targets is None else self.core.cost(hidden, targets)
        return LoopedOutput(hidden, nll, tuple(after), taken)


class ExplicitLanguageModel(LanguageModel):
    """What the language models without an equilibrium have in common."""

    core: Union[_core.TransformerXL, _core.GPT2, _core.AwdQrnn, _core.RelationalMemory]

    @outside_of_compilers
    def forward(
        self,
        tokens: Tensor,
        targets: Optional[Tensor] = None,
        *,
        memory: tuple[Tensor, ...] = (),
        capacity: int = 0,
    ) -> TextOutput:
        """As the DEQ-Transformer's, without an equilibrium. A recurrent network's memory has one size, so `capacity` only
        says whether it is given back; at 0 it is not."""
        self._require_shared()
        if targets is None:
            hidden, after = self.core.read(tokens, capacity, list(memory))
            return TextOutput(hidden, None, tuple(after), None)
        nll, hidden, after, penalty = self.core.forward(tokens, targets, capacity, list(memory))
        return TextOutput(hidden, nll, tuple(after), None, penalty)

    if TYPE_CHECKING:
        __call__ = forward


class TransformerXL(ExplicitLanguageModel):
    """Transformer-XL, the DEQ-Transformer's explicit rival. Options are those of `TransformerXLOptions`."""

    options_type = TransformerXLOptions
    core_type = _core.TransformerXL
    core: _core.TransformerXL


class GPT2(ExplicitLanguageModel):
    """GPT-2 as Megatron-LM trains it: it remembers the last words themselves and reads them again. Options are those of
    `GPT2Options`."""

    options_type = GPT2Options
    core_type = _core.GPT2
    core: _core.GPT2


class AwdQrnn(ExplicitLanguageModel):
    """AWD-QRNN, a quasi-recurrent network. Options are those of `QrnnOptions`."""

    options_type = QrnnOptions
    core_type = _core.AwdQrnn
    core: _core.AwdQrnn


class RelationalMemory(ExplicitLanguageModel):
    """A recurrent language model around a relational memory core. Options are those of `RelationalMemoryOptions`."""

    options_type = RelationalMemoryOptions
    core_type = _core.RelationalMemory
    core: _core.RelationalMemory


def _without_repeats(state_dict: Any, tied: list[tuple[str, str]]) -> dict[str, Any]:
    """The authors' checkpoints name a tied parameter twice."""
    repeats = {repeat for repeat, _ in tied}
    return {name: tensor for name, tensor in state_dict.items() if name not in repeats}

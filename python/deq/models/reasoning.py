"""The networks that solve puzzles."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional

import torch
from torch import Tensor

from deq import _core
from deq._compilers import outside_of_compilers
from deq._core import Equilibrated, EquilibriumPlan, JacobianFree, ReasonerOptions, Reversible, Unrolled
from deq.models._model import Model


class ReasonerOutput(NamedTuple):
    """What a reasoner gives for a batch of puzzles."""

    logits: Tensor  # of what stands in each cell [B, tokens, vocabulary]
    settled: Tensor  # logit of "all of it is right" [B]
    equilibrium: Equilibrated  # its state is the answer and the thought

    @property
    def carried(self) -> tuple[Tensor, ...]:
        """The state without its graph: where the next segment of these puzzles starts."""
        return tuple(tensor.detach() for tensor in self.equilibrium.state)


class ReasonerAnswer(NamedTuple):
    """What a reasoner takes for the answer of each puzzle."""

    contents: Tensor  # of every cell [B, tokens]
    settled: Tensor  # logit of "all of it is right" [B]
    residual: Tensor  # relative, of the start that was chosen [B]


class Reasoner(Model):
    """A small network that is applied again and again until its answer settles: the Tiny Recursive Model by default, the
    Equilibrium Reasoner with `damping=0.95, noise=0.01, start="random"`. Options are those of `ReasonerOptions` and of
    `EquilibriumOptions`; with `gradient=deq.Unrolled(steps=3, backpropagated=1)` a pass is a segment of the published
    trainings."""

    options_type = ReasonerOptions
    core_type = _core.Reasoner
    core: _core.Reasoner

    @outside_of_compilers
    def start_of(self, tokens: Tensor, generator: Optional[torch.Generator] = None) -> tuple[Tensor, ...]:
        """The answer and the thought that puzzles [B, tokens] begin with, each [B, tokens, width]; what is random about
        them is drawn from `generator`, or else from torch's own."""
        self._require_shared()
        return tuple(self.core.start_of(tokens, generator))

    @outside_of_compilers
    def forward(
        self, tokens: Tensor, start: Optional[tuple[Tensor, ...]] = None, plan: Optional[EquilibriumPlan] = None
    ) -> ReasonerOutput:
        """Puzzles [B, tokens], a number for what stands in each cell. They go on from `start`, the `carried` of a pass
        before; without one they are new."""
        self._require_shared()
        state = list(self.start_of(tokens) if start is None else start)
        output = ReasonerOutput(*self.core.forward(tokens, state, self._plan_of_pass(plan)))
        self._notice.look_at(output.equilibrium)
        return output

    if TYPE_CHECKING:
        __call__ = forward

    @torch.no_grad()
    def solve(
        self,
        tokens: Tensor,
        breadth: int = 1,
        plan: Optional[EquilibriumPlan] = None,
        generator: Optional[torch.Generator] = None,
    ) -> ReasonerAnswer:
        """Solves puzzles by the plan's solver, also where trainings unroll, in eval mode and without gradients; from
        `breadth` starts, of which for every puzzle the one counts that settled most."""
        if breadth < 1 or (breadth > 1 and self.options.start == "fixed"):
            raise _core.Error(f"solve: breadth is {breadth}, must be ≥ 1, and 1 unless start is 'random'")
        how = _solved(self._plan_of_pass(plan))
        before = self.training
        self.eval()
        try:
            best = self._settle(tokens, how, generator)
            for _ in range(1, breadth):
                other = self._settle(tokens, how, generator)
                better = other.residual < best.residual
                best = ReasonerAnswer(
                    torch.where(better[:, None], other.contents, best.contents),
                    torch.where(better, other.settled, best.settled),
                    torch.minimum(other.residual, best.residual),
                )
        finally:
            self.train(before)
        return best

    def _settle(self, tokens: Tensor, how: EquilibriumPlan, generator: Optional[torch.Generator]) -> ReasonerAnswer:
        output = self(tokens, self.start_of(tokens, generator), how)
        residuals = output.equilibrium.report.relative.to(output.settled)
        return ReasonerAnswer(output.logits.argmax(-1), output.settled, residuals)


def _solved(plan: EquilibriumPlan) -> EquilibriumPlan:
    """By its solver, where a training takes a few recursions at a time."""
    if not isinstance(plan.options.gradient, (Unrolled, Reversible)):
        return plan
    return EquilibriumPlan(plan.options.replace(gradient=JacobianFree()))


def stablemax_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """−log p of every target, where p is proportional to 1 + x for x ≥ 0 and to 1 / (1 − x) below: with it the published
    reasoners are trained. Logits [..., classes], targets [...]; nothing is averaged."""
    # Each branch is finite everywhere, with its gradient: where() multiplies the other one's by 0.
    s = torch.where(logits >= 0, logits + 1, 1 / (1 - logits.clamp(max=0)))
    log_p = s.log() - s.sum(-1, keepdim=True).log()
    return -log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)

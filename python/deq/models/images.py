"""The networks that tell what an image shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from torch import Tensor
from typing_extensions import Self

from deq import _core
from deq._compilers import outside_of_compilers
from deq._core import (
    DenseNetOptions,
    Equilibrated,
    EquilibriumPlan,
    InceptionOptions,
    MdeqOptions,
    MonotoneOptions,
    ResNetOptions,
    mdeq_preset,
)
from deq.models._model import Model


class ImageOutput(NamedTuple):
    """What a classifier gives: scores [B, classes], and how they were found."""

    logits: Tensor
    equilibrium: Equilibrated


class MDEQ(Model):
    """The multiscale DEQ for images. Options are those of `MdeqOptions` and of `EquilibriumOptions`."""

    options_type = MdeqOptions
    core_type = _core.MdeqClassifier
    core: _core.MdeqClassifier

    @classmethod
    def preset(cls, name: str, **options: Any) -> Self:
        """One of the authors' configurations, such as "cifar-tiny" or "imagenet-small-reg"."""
        return cls(**{**mdeq_preset(name).to_dict(), **options})

    @outside_of_compilers
    def forward(
        self, images: Tensor, plan: Optional[EquilibriumPlan] = None, start: Optional[Sequence[Tensor]] = None
    ) -> ImageOutput:
        """Scores of images [B, image_channels, H, W]. The solve begins at `start`, such as the `equilibrium.state` of similar
        images, or else at the model's own."""
        self._require_shared()
        output = ImageOutput(*self.core.forward(images, self._plan_of_pass(plan), list(start or ())))
        self._notice.look_at(output.equilibrium)
        return output

    if TYPE_CHECKING:
        __call__ = forward


class MonotoneDEQ(Model):
    """The monotone DEQ for square images. Options are those of `MonotoneOptions` and of `EquilibriumOptions`."""

    options_type = MonotoneOptions
    core_type = _core.MonotoneClassifier
    core: _core.MonotoneClassifier

    @outside_of_compilers
    def forward(
        self, images: Tensor, plan: Optional[EquilibriumPlan] = None, start: Optional[Sequence[Tensor]] = None
    ) -> ImageOutput:
        """Scores of images [B, image_channels, image_size, image_size], from `start` as MDEQ's."""
        self._require_shared()
        output = ImageOutput(*self.core.forward(images, self._plan_of_pass(plan), list(start or ())))
        self._notice.look_at(output.equilibrium)
        return output

    if TYPE_CHECKING:
        __call__ = forward


class ExplicitClassifier(Model):
    """What the classifiers without an equilibrium have in common."""

    core: Union[_core.ResNet, _core.DenseNet, _core.Inception]

    @outside_of_compilers
    def forward(self, images: Tensor) -> Tensor:
        """Scores [B, classes] of images [B, 3, H, W]."""
        self._require_shared()
        return self.core.forward(images)

    if TYPE_CHECKING:
        __call__ = forward


class ResNet(ExplicitClassifier):
    """A residual network with torchvision's names. Options are those of `ResNetOptions`."""

    options_type = ResNetOptions
    core_type = _core.ResNet


class DenseNet(ExplicitClassifier):
    """A densely connected network with torchvision's names. Options are those of `DenseNetOptions`."""

    options_type = DenseNetOptions
    core_type = _core.DenseNet


class Inception(ExplicitClassifier):
    """Inception-V2, by the table of its publication. Options are those of `InceptionOptions`."""

    options_type = InceptionOptions
    core_type = _core.Inception

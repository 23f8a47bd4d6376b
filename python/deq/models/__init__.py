"""The paper's models and their explicit rivals, computed in C++.

They are modules like any other: parameters and buffers have the names that the authors' checkpoints have, and are the
very tensors that C++ computes with."""

from deq._core import (
    DenseNetOptions,
    GPT2Options,
    InceptionOptions,
    LoopedTransformerOptions,
    MdeqOptions,
    MonotoneOptions,
    QrnnOptions,
    ReasonerOptions,
    RelationalMemoryOptions,
    ResNetOptions,
    TransformerOptions,
    TransformerXLOptions,
    mdeq_preset,
    mdeq_preset_names,
)
from deq.models._model import Model
from deq.models.images import MDEQ, DenseNet, ImageOutput, Inception, MonotoneDEQ, ResNet
from deq.models.language import (
    GPT2,
    AwdQrnn,
    DEQTransformer,
    EquilibriumLanguageModel,
    ExplicitLanguageModel,
    LanguageModel,
    LoopedOutput,
    LoopedTransformer,
    RelationalMemory,
    TextOutput,
    TransformerXL,
)
from deq.models.reasoning import Reasoner, ReasonerAnswer, ReasonerOutput, stablemax_cross_entropy

__all__ = [
    "AwdQrnn",
    "DEQTransformer",
    "DenseNet",
    "DenseNetOptions",
    "EquilibriumLanguageModel",
    "ExplicitLanguageModel",
    "GPT2",
    "GPT2Options",
    "ImageOutput",
    "Inception",
    "InceptionOptions",
    "LanguageModel",
    "LoopedOutput",
    "LoopedTransformer",
    "LoopedTransformerOptions",
    "MDEQ",
    "MdeqOptions",
    "Model",
    "MonotoneDEQ",
    "MonotoneOptions",
    "QrnnOptions",
    "Reasoner",
    "ReasonerAnswer",
    "ReasonerOptions",
    "ReasonerOutput",
    "RelationalMemory",
    "RelationalMemoryOptions",
    "ResNet",
    "ResNetOptions",
    "TextOutput",
    "TransformerOptions",
    "TransformerXL",
    "TransformerXLOptions",
    "mdeq_preset",
    "mdeq_preset_names",
    "stablemax_cross_entropy",
]

"""The paper's models and their explicit rivals, computed in C++.

They are modules like any other: parameters and buffers have the names that the authors' checkpoints have, and are the
very tensors that C++ computes with."""

from __future__ import annotations

import json
import pathlib
import tempfile
from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor
from typing_extensions import Self

from deq import _core
from deq._compilers import outside_of_compilers
from deq._replay import ReplayNotice
from deq._core import (
    DenseNetOptions,
    Equilibrated,
    EquilibriumOptions,
    EquilibriumPlan,
    GPT2Options,
    InceptionOptions,
    LoopedTransformerOptions,
    MdeqOptions,
    MonotoneOptions,
    QrnnOptions,
    RelationalMemoryOptions,
    ResNetOptions,
    TransformerOptions,
    TransformerXLOptions,
    mdeq_preset,
    mdeq_preset_names,
)

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
]

_EQUILIBRIUM = tuple(EquilibriumOptions().to_dict())
# What the options of an equilibrium are made of, by the names that config.json has.
_OPTIONS = {
    kind.__name__: kind
    for kind in (
        _core.Picard,
        _core.Anderson,
        _core.Broyden,
        _core.LimitedBroyden,
        _core.NewtonKrylov,
        _core.Implicit,
        _core.Truncated,
        _core.JacobianFree,
        _core.Shine,
        _core.Phantom,
        _core.Unrolled,
        _core.Reversible,
    )
}


class ImageOutput(NamedTuple):
    """What a classifier gives: scores [B, classes], and how they were found."""

    logits: Tensor
    equilibrium: Equilibrated


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


class Model(torch.nn.Module):
    """What the models here have in common."""

    options_type: Any  # one of _core's classes of options
    core_type: Any  # one of _core's models
    core: Any
    classes: list[str]  # what deq.load() knows of the data

    def __init__(self, generator: Optional[torch.Generator] = None, **options: Any) -> None:
        super().__init__()
        plan = {name: options.pop(name) for name in _EQUILIBRIUM if name in options}
        self.options = self.options_type(**options)
        self.plan = EquilibriumPlan(EquilibriumOptions(**plan))
        self._notice = ReplayNotice(plan.get("replay"))
        self.core = self.core_type(self.options, generator)
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

    def train(self, mode: bool = True) -> Self:
        self.core.train(mode)
        return super().train(mode)

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

    def config(self) -> dict[str, Any]:
        """The options that make such a model again, as plain values."""
        return dict(self.options.to_dict())

    def save_pretrained(self, folder: Union[str, pathlib.Path]) -> None:
        """Writes config.json, with the options of the equilibrium too, and model.safetensors; needs the package
        safetensors."""
        save_file = safetensors("save_pretrained").torch.save_file
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = {"model": type(self).__name__, **self.config(), "equilibrium": _plain(self.plan.options)}
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        save_file({name: tensor.contiguous() for name, tensor in self.state_dict().items()}, folder / "model.safetensors")

    @classmethod
    def from_pretrained(cls, name: Union[str, pathlib.Path], *, revision: Optional[str] = None, **plan: Any) -> Self:
        """The model that save_pretrained() wrote, in eval mode. Options of `EquilibriumOptions` take the place of those it
        had. A name that is no folder is that of a model on the hub, which needs the package huggingface_hub."""
        load_file = safetensors("from_pretrained").torch.load_file
        folder = pathlib.Path(name)
        if not folder.is_dir():
            folder = pathlib.Path(_hub(f"{name} is no folder").snapshot_download(str(name), revision=revision))
        config = json.loads((folder / "config.json").read_text())
        name = config.pop("model", None)
        if name != cls.__name__:
            raise _core.Error(f"{folder / 'config.json'} is that of a {name}, not of a {cls.__name__}")
        equilibrium = _options_of(config.pop("equilibrium", {}))
        model = cls(**config, **{**equilibrium, **plan})
        model.load_state_dict(load_file(folder / "model.safetensors"))
        return model.eval()

    def push_to_hub(self, name: str, **options: Any) -> None:
        """Puts what save_pretrained() writes into the hub's repository `name`, made if it is not there. Options are those
        of huggingface_hub's upload_folder."""
        hub = _hub("push_to_hub")
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            hub.create_repo(name, exist_ok=True)
            hub.upload_folder(repo_id=name, folder_path=folder, **options)

    def __reduce__(self) -> Any:
        """copy.deepcopy and pickle make a model again from its options and its state."""
        frozen = [name for name, parameter in self.named_parameters() if not parameter.requires_grad]
        about = {name: value for name, value in vars(self).items() if name in ("classes", "training")}
        return _made_again, (type(self), self.config(), self.plan.options, self.state_dict(), frozen, about)


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
    def forward(self, images: Tensor, plan: Optional[EquilibriumPlan] = None) -> ImageOutput:
        """Scores of images [B, image_channels, H, W]."""
        self._require_shared()
        output = ImageOutput(*self.core.forward(images, plan or self.plan))
        self._notice.look_at(output.equilibrium)
        return output


class MonotoneDEQ(Model):
    """The monotone DEQ for square images. Options are those of `MonotoneOptions` and of `EquilibriumOptions`."""

    options_type = MonotoneOptions
    core_type = _core.MonotoneClassifier
    core: _core.MonotoneClassifier

    @outside_of_compilers
    def forward(self, images: Tensor, plan: Optional[EquilibriumPlan] = None) -> ImageOutput:
        """Scores of images [B, image_channels, image_size, image_size]."""
        self._require_shared()
        output = ImageOutput(*self.core.forward(images, plan or self.plan))
        self._notice.look_at(output.equilibrium)
        return output


class ExplicitClassifier(Model):
    """What the classifiers without an equilibrium have in common."""

    core: Union[_core.ResNet, _core.DenseNet, _core.Inception]

    @outside_of_compilers
    def forward(self, images: Tensor) -> Tensor:
        """Scores [B, classes] of images [B, 3, H, W]."""
        self._require_shared()
        return self.core.forward(images)


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
        hidden, after, equilibrium = self.core.read(tokens, capacity, list(memory), plan or self.plan)
        self._notice.look_at(equilibrium)
        nll = None if targets is None else self.core.cost(hidden, targets)
        return TextOutput(hidden, nll, tuple(after), equilibrium)


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


def _made_again(
    kind: type[Model],
    config: dict[str, Any],
    plan: EquilibriumOptions,
    state: dict[str, Tensor],
    frozen: list[str],
    about: dict[str, Any],
) -> Model:
    model = kind(**config)
    model.plan = EquilibriumPlan(plan)
    first = next(tensor for tensor in state.values() if tensor.is_floating_point())
    model.to(device=first.device, dtype=first.dtype)
    model.load_state_dict(state)
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    model.train(about.pop("training"))
    vars(model).update(about)
    return model


def _plain(options: Any) -> Any:
    """Options as what JSON has: those inside of others with the name of their class."""
    if not hasattr(options, "to_dict"):
        return options
    fields = {name: _plain(value) for name, value in options.to_dict().items()}
    return fields if isinstance(options, EquilibriumOptions) else {"name": type(options).__name__, **fields}


def _options_of(plain: dict[str, Any]) -> dict[str, Any]:
    """What _plain() made plain."""
    return {name: _option_of(value) if isinstance(value, dict) else value for name, value in plain.items()}


def _option_of(plain: dict[str, Any]) -> Any:
    name = plain.get("name")
    if name not in _OPTIONS:
        raise _core.Error(f"config.json: equilibrium names {name!r}, must be one of {', '.join(_OPTIONS)}")
    return _OPTIONS[name](**_options_of({key: value for key, value in plain.items() if key != "name"}))


def safetensors(who: str) -> Any:
    """The package that reads and writes weights."""
    try:
        import safetensors.torch
    except ImportError:
        raise _core.Error(f'{who} needs safetensors: run `python -m pip install "libdeq[models]"`') from None
    return safetensors


def _hub(who: str) -> Any:
    try:
        import huggingface_hub  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise _core.Error(
            f'{who}: the hub needs huggingface_hub: run `python -m pip install "libdeq[hub]"`'
        ) from None
    return huggingface_hub


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


def _without_repeats(state_dict: Any, tied: list[tuple[str, str]]) -> dict[str, Any]:
    """The authors' checkpoints name a tied parameter twice."""
    repeats = {repeat for repeat, _ in tied}
    return {name: tensor for name, tensor in state_dict.items() if name not in repeats}

"""What the models have in common: the tensors that they share with C++, and how they are kept in files."""

from __future__ import annotations

import json
import pathlib
import tempfile
from typing import Any, Optional, Union

import torch
from torch import Tensor
from typing_extensions import Self

from deq import _core
from deq._pass_checks import refuse_transforms, require_plan
from deq._replay import ReplayNotice
from deq._shared import Shared
from deq._core import EquilibriumOptions, EquilibriumPlan

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


class Model(Shared):
    """What the models here have in common."""

    options_type: Any  # one of _core's classes of options
    core_type: Any  # one of _core's models
    classes: list[str]  # what deq.load() knows of the data

    def __init__(self, generator: Optional[torch.Generator] = None, **options: Any) -> None:
        super().__init__()
        plan = {name: options.pop(name) for name in _EQUILIBRIUM if name in options}
        self.options = self.options_type(**options)
        self.plan = EquilibriumPlan(EquilibriumOptions(**plan))
        self._notice = ReplayNotice(plan.get("replay"))
        self._share(self.core_type(self.options, generator))

    def train(self, mode: bool = True) -> Self:
        self.core.train(mode)
        return super().train(mode)

    def _plan_of_pass(self, plan: Optional[EquilibriumPlan]) -> EquilibriumPlan:
        """Its own, or else the model's."""
        refuse_transforms()
        require_plan(plan)
        return plan or self.plan

    def config(self) -> dict[str, Any]:
        """The options that make such a model again, as plain values."""
        return dict(self.options.to_dict())

    def save_pretrained(self, folder: Union[str, pathlib.Path]) -> None:
        """Writes config.json, with the options of the equilibrium too, and model.safetensors; needs the package
        safetensors."""
        save_file = safetensors("save_pretrained").torch.save_file
        config = {"model": type(self).__name__, **self.config(), "equilibrium": _plain(self.plan.options)}
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
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
    if isinstance(options, torch.nn.Module):
        raise _core.Error(f"save_pretrained writes no {type(options).__name__}: save its state_dict() by itself")
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

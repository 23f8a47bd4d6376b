"""Run folders, as the program `deq` writes them: their metrics, their reports, their models."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any, Literal, Union

from deq import _core, models
from deq.models._model import safetensors

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Folder = Union[str, pathlib.Path]

_SOLVERS = {
    "picard": _core.Picard,
    "anderson": _core.Anderson,
    "broyden": _core.Broyden,
    "limited-broyden": _core.LimitedBroyden,
    "newton-krylov": _core.NewtonKrylov,
}
_MODELS: dict[tuple[str, str], type[models.Model]] = {
    ("vision", "mdeq"): models.MDEQ,
    ("vision", "resnet"): models.ResNet,
    ("vision", "densenet"): models.DenseNet,
    ("vision", "inception"): models.Inception,
    ("vision", "monotone"): models.MonotoneDEQ,
    ("language", "deq-transformer"): models.DEQTransformer,
    ("language", "transformer-xl"): models.TransformerXL,
    ("language", "looped"): models.LoopedTransformer,
    ("language", "relational-memory"): models.RelationalMemory,
    ("language", "awd-qrnn"): models.AwdQrnn,
    ("language", "gpt2"): models.GPT2,
    ("reasoning", ""): models.Reasoner,
}
# What a depth stands for.
_DEPTHS: dict[str, dict[str, dict[str, Any]]] = {
    "resnet": {
        "18": {"blocks": [2, 2, 2, 2]},
        "50": {"blocks": [3, 4, 6, 3], "bottleneck": True},
        "101": {"blocks": [3, 4, 23, 3], "bottleneck": True},
    },
    "densenet": {
        "121": {"layers": [6, 12, 24, 16]},
        "264": {"layers": [6, 12, 64, 48]},
    },
}


def read_metrics(run: Folder) -> list[dict[str, Any]]:
    """The rows of a run's metrics.jsonl, in their order; `pandas.DataFrame(deq.read_metrics(run))` is a table of them.
    docs/metrics.md says what they mean. A line that a stopped run has not finished is left out."""
    file = _existing(pathlib.Path(run) / "metrics.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n") and line.strip()]


def report(*runs: Folder, out: Folder) -> pathlib.Path:
    """Writes one self-contained page about one run, or that compares several, as `deq report` does."""
    if not runs:
        raise _core.Error("report: name at least one run folder")
    command = [sys.executable, "-m", "deq_program", "report", *map(str, runs), "--out", str(out)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise _core.Error(result.stderr.strip().splitlines()[-1] if result.stderr.strip() else "deq report failed")
    return pathlib.Path(out)


def load(run: Folder, checkpoint: Literal["newest", "best"] = "newest") -> models.Model:
    """The model of a run folder for inference, in eval mode, with the run's solver. What it tells apart, a classifier's
    classes, a language model's words or the signs in the cells of a puzzle, is its `classes`. Needs the package
    safetensors."""
    safe_open = safetensors("load").safe_open
    folder = pathlib.Path(run)
    config = read_toml(_existing(folder / "config.toml"))
    experiment, settings = config["experiment"], dict(config["model"])
    name = settings.pop("name", "")
    if (experiment, name) not in _MODELS:
        loadable = ", ".join(" ".join(pair).rstrip() for pair in _MODELS)
        raise _core.Error(
            f"load: {folder} is a run of {experiment} {name}".rstrip() + f", and Python has models of {loadable} only: "
            "evaluate it with the program (`deq eval`, `deq predict`)"
        )
    with safe_open(_checkpoint(folder, checkpoint), "pt") as file:
        # What a training needs besides, such as the optimiser's state, has a slash in its name.
        state = {key: file.get_tensor(key) for key in file.keys() if "/" not in key}
        metadata = file.metadata() or {}
    classes = json.loads(metadata.get("classes", "[]"))
    if experiment == "reasoning":
        classes, settings["tokens"] = _signs_and_cells(metadata.get("sample_form", ""), folder)
        settings["vocabulary"] = len(classes)

    kind = _MODELS[experiment, name]
    model = kind(**_model_options(experiment, name, settings, config, classes), **_plan(config))
    if config["precision"] == "float64":
        model.double()
    model.load_state_dict(state)
    model.classes = classes
    return model.eval()


def read_toml(file: pathlib.Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())


def _existing(file: pathlib.Path) -> pathlib.Path:
    if not file.is_file():
        raise _core.Error(f"{file}: no such file")
    return file


def _checkpoint(run: pathlib.Path, which: str) -> pathlib.Path:
    if which == "best":
        return _existing(run / "checkpoints" / "best.safetensors")
    if which != "newest":
        raise _core.Error(f"load: checkpoint is {which!r}, must be 'newest' or 'best'")
    steps = sorted((run / "checkpoints").glob("step-*.safetensors"))
    if not steps:
        raise _core.Error(f"{run}: there is no checkpoint")
    return steps[-1]


def _plan(config: dict[str, Any]) -> dict[str, Any]:
    """How the run's layers are solved, or unrolled, outside of training."""
    gradient = config.get("gradient", {})
    if gradient.get("name") != "unrolled" or config["experiment"] == "reasoning":
        return {"forward": _solver(config)}
    steps, backpropagated = gradient["steps"], gradient["backpropagated"]
    return {"forward": _solver(config), "gradient": _core.Unrolled(steps=steps, backpropagated=backpropagated)}


def _solver(config: dict[str, Any]) -> Any:
    """The run's own; an explicit network has none."""
    settings = dict(config.get("solver", {}).get("forward", {"name": "anderson"}))
    if "norm" in settings:
        settings["scope"] = settings.pop("norm")
    return _SOLVERS[settings.pop("name")](**settings)


def _signs_and_cells(form: str, folder: pathlib.Path) -> tuple[list[str], int]:
    """What may stand in a cell of a puzzle, in the order of its numbers, and how many cells there are. A form is
    "sudoku 3x3", by the boxes, or "maze 30x30"."""
    kind, _, size = form.partition(" ")
    if kind not in ("sudoku", "maze"):
        raise _core.Error(f"load: {folder} does not say which puzzles it is for: train it with a newer deq")
    rows, columns = map(int, size.split("x"))
    if kind == "maze":
        return list("# SGo"), rows * columns
    return [".", *map(str, range(1, rows * columns + 1))], (rows * columns) ** 2


def _model_options(
    experiment: str, name: str, settings: dict[str, Any], config: dict[str, Any], classes: list[str]
) -> dict[str, Any]:
    """A configuration's keys are the options' names, except what the data decide."""
    if experiment == "language":
        settings.pop("exits", None)  # what the program evaluates besides
        ties = [False] + [True] * len(settings["cutoffs"])
        return {**settings, "vocabulary": len(classes), "tie_projections": ties}
    if name in _DEPTHS:
        depth = settings.pop("depth")
        return {**settings, **_DEPTHS[name][depth]}
    if name == "monotone":
        return {**settings, "image_size": config["data"]["image_size"]}
    return settings

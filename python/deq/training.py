"""The program's trainer, started and watched from Python."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, Any, Callable, Optional

from deq import _core
from deq.runs import Folder, read_toml

MetricsCallback = Callable[[dict[str, Any]], Optional[bool]]

_POLL_SECONDS = 0.2


class Trainer:
    """Trains what a configuration file describes, in a process of its own: `python -m deq train` with callbacks.

    `settings` override keys of the file by their dotted names: `{"train.epochs": 3}`. docs/config.md lists them. The run
    folder `out` must not exist or be empty; by default it is runs/NAME after the experiment, as the program has it. Ctrl-C, or a callback that returns False, saves the run and stops it;
    `resume()` goes on with it, then or later, to the same bits.
    """

    def __init__(
        self,
        config: Folder,
        *,
        out: Optional[Folder] = None,
        settings: Optional[Mapping[str, Any]] = None,
        device: str = "cpu",
        processes: int = 1,
    ) -> None:
        self.run_folder = pathlib.Path(out) if out is not None else _free_run_folder(pathlib.Path(config))
        self._new = [str(config), "--out", str(self.run_folder)]
        for key, value in (settings or {}).items():
            self._new += ["--set", f"{key}={_toml(value)}"]
        self._how = ["--device", device, "--nproc", str(processes), "--json"]

    def run(self, callback: Optional[MetricsCallback] = None) -> Optional[dict[str, Any]]:
        """Trains to the end and returns the result, what `deq train --json` prints; None where the callback stopped it.
        `callback` gets every row of metrics soon after it is written (docs/metrics.md)."""
        return self._train(self._new, callback)

    def resume(self, callback: Optional[MetricsCallback] = None) -> Optional[dict[str, Any]]:
        """Goes on from the newest checkpoint. The callback gets the rows that are new."""
        return self._train(["--resume", str(self.run_folder)], callback)

    def _train(self, arguments: list[str], callback: Optional[MetricsCallback]) -> Optional[dict[str, Any]]:
        rows = _NewRows(self.run_folder / "metrics.jsonl")
        command = [sys.executable, "-m", "deq_program", "train", *arguments, *self._how]
        # Files, because nobody reads while the callback runs, and a full pipe would stop the training.
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            # In a session of its own Ctrl-C reaches Python alone, which then asks it to stop, once.
            with subprocess.Popen(command, stdout=output, stderr=errors, text=True, start_new_session=True) as process:
                try:
                    was_asked = self._watch(process, rows, callback)
                except BaseException:
                    _stop(process)
                    raise
            # One that is asked to stop saves and says so; after its last checkpoint the signal itself ends it.
            has_stopped = process.returncode == 128 + signal.SIGTERM or (was_asked and process.returncode == -signal.SIGTERM)
            return None if has_stopped else _result(process.returncode, output, errors)

    @staticmethod
    def _watch(process: subprocess.Popen[str], rows: _NewRows, callback: Optional[MetricsCallback]) -> bool:
        """Whether the callback asked the training to stop before it ended."""
        ended = False
        while not ended:
            try:
                process.wait(_POLL_SECONDS)
                ended = True  # what it wrote last is still to be read
            except subprocess.TimeoutExpired:
                pass
            if callback is None:
                continue
            for row in rows:
                if callback(row) is False:
                    return _stop(process)
        return False


def _free_run_folder(config: pathlib.Path) -> pathlib.Path:
    """runs/NAME, or runs/NAME-2, runs/NAME-3, … where that exists. A file may build on another that names the experiment."""
    settings: dict[str, Any] = {"base": config.name}
    file = config
    try:
        while "experiment" not in settings and "base" in settings:
            file = file.parent / settings["base"]
            settings = read_toml(file)
    except (OSError, ValueError):  # the program says what is wrong with it
        pass
    name = str(settings.get("experiment", config.stem))
    folder, number = pathlib.Path("runs") / name, 1
    while folder.exists():
        number += 1
        folder = pathlib.Path("runs") / f"{name}-{number}"
    return folder


class _NewRows:
    """The whole lines that a file has got since it was last looked at."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self._read = file.stat().st_size if file.exists() else 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not self._file.exists():
            return
        with open(self._file, "rb") as file:
            # A resumed run first forgets what came after its checkpoint.
            file.seek(min(self._read, self._file.stat().st_size))
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read = file.tell()
                yield json.loads(line)


def _stop(process: subprocess.Popen[str]) -> bool:
    """Lets a training save what it has. Whether it was still running."""
    if process.poll() is not None:
        return False
    process.send_signal(signal.SIGTERM)
    process.wait()
    return True


def _result(status: int, output: IO[str], errors: IO[str]) -> dict[str, Any]:
    if status != 0:
        errors.seek(0)
        said = errors.read().strip().splitlines()
        raise _core.Error(said[-1].removeprefix("deq: ") if said else f"the training ended with status {status}")
    output.seek(0)
    result: dict[str, Any] = json.load(output)
    return result


def _toml(value: Any) -> str:
    if getattr(value, "ndim", None) == 0:  # a number of NumPy's or torch's
        value = value.item()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, (bool, int, float, str)):
        return json.dumps(value)
    raise TypeError(f"a setting is a {type(value).__name__}, must be a number, a text, a list or a mapping")

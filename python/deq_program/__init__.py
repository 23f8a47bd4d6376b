"""Starts the program `deq`, which lies in the package deq: `deq ...` and `python -m deq ...`.

A package of its own, because importing deq imports torch, which takes seconds."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
from typing import NoReturn


def main() -> NoReturn:
    program = pathlib.Path(__file__).parent.parent / "deq" / "bin" / "deq"
    if not program.exists():
        sys.exit("deq: this installation of libdeq has no program: it was built without (DEQ_BUILD_CLI=OFF)")
    searched = [str(_torch_libraries()), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, searched))
    os.execv(program, ["deq", *sys.argv[1:]])


def _torch_libraries() -> pathlib.Path:
    """Where torch is installed, without the seconds that importing it takes."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        sys.exit("deq: torch is not installed")
    return pathlib.Path(found.origin).parent / "lib"

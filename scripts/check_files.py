#!/usr/bin/env python3
"""Parses every C++ file of src/, tools/ and benchmarks/ on its own: check_files.py BUILD_FOLDER.

A build in units (DEQ_UNITY) does not notice a file that lives off what its neighbours include. The
folder is one configured without units, whose precompiled header is made.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def syntax_command(entry):
    """The compile command, without its output."""
    words = shlex.split(entry["command"])
    while words[0].endswith(("cmake", "ccache")) or words[0] in ("-E", "env") or "=" in words[0]:
        words.pop(0)
    for option in ("-o", "-MF", "-MT"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    return [word for word in words if word != "-MD"] + ["-fsyntax-only"]


def check(entry):
    result = subprocess.run(syntax_command(entry), cwd=entry["directory"], capture_output=True, text=True)
    return entry["file"], result.returncode, result.stderr


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_files.py BUILD_FOLDER")
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    folders = tuple(f"{ROOT / folder}/" for folder in ("src", "tools", "benchmarks"))
    entries = [entry for entry in entries if entry["file"].startswith(folders) and entry["file"].endswith(".cpp")]
    if not entries:
        sys.exit(f"{sys.argv[1]} compiles no file on its own: configure it with --preset dev")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        for file, status, messages in pool.map(check, entries):
            if status != 0:
                failed += 1
                print(messages, file=sys.stderr)
    if failed:
        sys.exit(f"files: {failed} of {len(entries)} do not compile alone")
    print(f"files: {len(entries)} compile alone")


if __name__ == "__main__":
    main()

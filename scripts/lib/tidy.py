"""clang-tidy over src/ and tools/, in parallel: tidy.py BUILD_FOLDER, in the root of the tree.

A file with torch's headers takes about half a minute, so a file that passed is not looked at
again until it, a header of ours it includes, its flags or .clang-tidy change. What passed is
remembered by content in DEQ_TIDY_CACHE, by default ~/.cache/deq-tidy, for all checkouts.

  DEQ_TIDY_BASE=REV    only the files that changed since this git revision, and those that
                       include a header that did
  DEQ_TIDY_SECONDS=N   start no file after N seconds; those left are named, and are not a failure
  DEQ_TIDY_FILES=TEXT  only the files whose path contains TEXT
  JOBS=N, CLANG_TIDY=PROGRAM
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path.cwd()
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
# What g++ takes and clang does not, and OpenMP, whose header clang brings in another package.
DROP = {"-fpch-preprocess", "-Winvalid-pch", "-Werror", "-fopenmp"}


def clang_flags(entry: dict) -> list[str]:
    """The flags of a compile command without compiler, outputs and precompiled header."""
    words = entry.get("arguments") or shlex.split(entry["command"])
    flags, i = [], 1
    while i < len(words):
        word = words[i]
        if word == "-include" and "cmake_pch" in words[i + 1] or word in ("-o", "-c", "-MT", "-MF"):
            i += 1
        elif word not in DROP and word != "-MD" and not word.startswith(("-Wno-", "-fsanitize")):
            flags.append(word)
        i += 1
    return flags + ["-Wno-unknown-warning-option", "-Wno-ignored-optimization-argument"]


def our_files(source: pathlib.Path, folders: list[pathlib.Path]) -> list[pathlib.Path]:
    """A source and all files of ours it includes, directly or not."""
    seen, todo = {source}, [source]
    while todo:
        file = todo.pop()
        for name in INCLUDE.findall(file.read_text(encoding="utf-8", errors="replace")):
            for folder in [file.parent, *folders]:
                found = (folder / name).resolve()
                if found.is_file():
                    if found not in seen:
                        seen.add(found)
                        todo.append(found)
                    break
    return sorted(seen)


def changed_since(base: str) -> set[pathlib.Path]:
    names = subprocess.run(["git", "diff", "--name-only", base], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split()
    names += subprocess.run(["git", "ls-files", "--others", "--exclude-standard"], check=True,
                            text=True, stdout=subprocess.PIPE).stdout.split()
    return {(ROOT / name).resolve() for name in names}


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    tidy = shutil.which(os.environ.get("CLANG_TIDY", "clang-tidy-14"))
    if not tidy:
        sys.exit("clang-tidy-14 is missing: scripts/setup.sh --dev")
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    passed = pathlib.Path(os.environ.get("DEQ_TIDY_CACHE") or pathlib.Path(cache) / "deq-tidy")
    passed.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + float(os.environ.get("DEQ_TIDY_SECONDS") or "inf")
    base = os.environ.get("DEQ_TIDY_BASE")
    changed = changed_since(base) if base else None
    only = os.environ.get("DEQ_TIDY_FILES", "")
    folders = [ROOT / "include", build / "include", ROOT / "src", ROOT / "tools" / "deq"]
    rules = (ROOT / ".clang-tidy").read_bytes()

    work = []
    total = 0
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"]).resolve()
        if source.suffix != ".cpp" or not source.is_file():
            continue
        if not any(source.is_relative_to(ROOT / room) for room in ("src", "tools")):
            continue
        if only not in str(source):
            continue
        total += 1
        files = our_files(source, folders)
        if changed is not None and changed.isdisjoint(files):
            continue
        flags = clang_flags(entry)
        digest = hashlib.sha256(rules + " ".join([tidy, *flags]).replace(str(ROOT), ".").encode())
        for file in files:
            digest.update(os.path.relpath(file, ROOT).encode() + b"\0" + file.read_bytes())
        stamp = passed / digest.hexdigest()
        if not stamp.exists():
            work.append((source.stat().st_mtime, source, entry["directory"], flags, stamp))
    work.sort(key=lambda item: item[0], reverse=True)  # what was worked on last comes first
    print(f"tidy: {total} files, {len(work)} to analyse", flush=True)

    def analyse(item):
        _, source, directory, flags, stamp = item
        if time.monotonic() > deadline:
            return source, None, "", 0.0
        start = time.monotonic()
        result = subprocess.run(
            [tidy, "--quiet", str(source), f"--config-file={ROOT / '.clang-tidy'}", "--", *flags],
            cwd=directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        text = result.stdout
        if result.returncode and not text.strip():
            text = result.stderr
        if result.returncode == 0:
            stamp.touch()
        return source, result.returncode, text, time.monotonic() - start

    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 2)
    failed, left = [], []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(analyse, item) for item in work]):
            source, status, text, seconds = future.result()
            name = source.relative_to(ROOT)
            if status is None:
                left.append(name)
            else:
                print(f"tidy: {name} {'ok' if status == 0 else 'FAILED'} ({seconds:.0f} s)", flush=True)
            if status:
                failed.append(name)
                print(text, flush=True)
    if left:
        print(f"tidy: out of time; not analysed: {' '.join(map(str, sorted(left)))}")
    if failed:
        print(f"tidy: {len(failed)} of {total} files have findings", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env bash
# Parses all of src/ and tools/ for 64-bit ARM with Debian's cross compiler, against libtorch's headers
# alone: scripts/check_aarch64.sh [build folder made in units]. Nothing is linked or run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build/release}
compiler=${AARCH64_CXX:-aarch64-linux-gnu-g++-12}
command -v "$compiler" >/dev/null || { echo "$compiler is missing (Debian: g++-12-aarch64-linux-gnu)" >&2; exit 1; }
python3 - "$build" "$compiler" <<'PY'
import concurrent.futures, json, pathlib, shlex, subprocess, sys

build, compiler = sys.argv[1:]
entries = [entry for entry in json.loads(pathlib.Path(build, "compile_commands.json").read_text())
           if "/Unity/" in entry["file"] and any(f"/{target}.dir/" in entry["file"] for target in
                                                 ("libdeq", "libdeq_models", "libdeq_lab", "deq_cli"))]
if not entries:
    sys.exit(f"{build} is not made in units")


def check(entry):
    words, flags = shlex.split(entry["command"]), []
    for i, word in enumerate(words):
        if word.startswith(("-I", "-D", "-std", "-W", "-f")) and word != "-fpch-preprocess":
            flags.append(word)
        elif word == "-isystem":
            flags += [word, words[i + 1]]
    # Headers of the other libraries are the host's, and hold the same for ARM.
    host = ["-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"]
    run = subprocess.run([compiler, *flags, *host, "-fsyntax-only", entry["file"]], cwd=entry["directory"],
                         capture_output=True, text=True)
    return entry["file"], run.returncode, run.stderr


failed = 0
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for file, status, messages in pool.map(check, entries):
        if status != 0:
            failed += 1
            print(messages[:4000], file=sys.stderr)
sys.exit(f"aarch64: {failed} of {len(entries)} units do not compile" if failed else None)
PY
echo "aarch64: all of src/ and tools/ compiles"

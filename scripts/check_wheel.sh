#!/usr/bin/env bash
# Installs a wheel of libdeq into a fresh environment and uses it there: check_wheel.sh WHEEL.
#
# torch and the packages of the tests come from .deps/testenv; nothing is downloaded. So the wheel must be for its Python.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wheel=${1:?usage: scripts/check_wheel.sh WHEEL}
root=$PWD
packages=$(.deps/testenv/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')

fail() { echo "check_wheel: $*" >&2; exit 1; }

bytes=$(stat -c %s "$wheel")
((bytes < 40 * 1024 * 1024)) || fail "$wheel has $bytes bytes, must have less than 40 MiB"
contents=$(.deps/testenv/bin/python -m zipfile -l "$wheel")
! grep -E 'lib(torch|c10|cu|nccl)[^/ ]*\.so' <<<"$contents" || fail "$wheel holds libraries of others"
# As cmake/DeqCuda.cmake looks for it.
nvcc=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:${CUDA_PATH:-/usr/local/cuda}/bin command -v nvcc || true)
[[ -z $nvcc ]] || grep -q '^deq/lib/libdeq_cuda\.so ' <<<"$contents" || fail "$wheel has no CUDA part, and $nvcc is here"
.deps/testenv/bin/python scripts/lib/wheel_pins.py "$wheel" || fail "$wheel is not what it says (see above)"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
.deps/testenv/bin/python -m venv "$folder/env"
python=$folder/env/bin/python
own=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
# addsitedir also reads the .pth files there, which let Python import torch.
echo "import site; site.addsitedir('$packages')" >"$own/tests.pth"
"$python" -m pip --disable-pip-version-check install --quiet --no-deps "$wheel"

glibc=$(find "$own/deq" -name '*.so*' -o -path '*/bin/deq' | xargs objdump -T 2>/dev/null | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -1)
[[ $(printf '%s\n' GLIBC_2.35 "$glibc" | sort -V | tail -1) == GLIBC_2.35 ]] ||
  fail "$wheel needs $glibc, and docs/python.md says 2.35"
"$python" -c 'import deq._core, torch; assert deq._core.torch_version.split(".")[:2] == torch.__version__.split(".")[:2]' ||
  fail "$wheel was not built with this torch"

cd "$folder"
"$folder/env/bin/deq" --version
"$python" -m deq demo | tail -n 3
# The tests themselves, of the installed package; those of recordings on the CPU need a library of the build.
env -u PYTHONPATH DEQ_SOURCE_DIR="$root" DEQ_FIXTURES="$root/tests/fixtures" PYTHONDONTWRITEBYTECODE=1 \
  "$python" -m pytest -q -p no:cacheprovider "$root/python/tests"
echo "check_wheel: $(basename "$wheel"), $((bytes / 1024)) KiB, works"

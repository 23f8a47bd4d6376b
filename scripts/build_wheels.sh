#!/usr/bin/env bash
# Builds the Python package: build_wheels.sh PYTHON ..., into dist/.
#
# A PYTHON is a program, or a version such as 3.12, which is python3.12 of the PATH. One that has no scikit-build-core gets
# an environment of its own in .deps/ with it (once, a small download). All are built with the libtorch of .deps/, whose
# Python does not matter: only deq._core differs between the wheels, and it meets the user's torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
(($# > 0)) || { echo "usage: scripts/build_wheels.sh PYTHON ..." >&2; exit 2; }
readonly BUILDER=$(sed -n 's/.*\(scikit-build-core==[0-9.]*\).*/\1/p' scripts/setup.sh)

fail() { echo "build_wheels: $*" >&2; exit 1; }

# The interpreter that a word means, with what builds a package.
builder() {
  local python=$1 version
  [[ $python =~ ^3\.[0-9]+$ ]] && python=python$python
  python=$(command -v "$python") || fail "$1 is no Python of this machine: name its program"
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$python does not run"
  if ! "$python" -c 'import scikit_build_core' 2>/dev/null; then
    local environment=.deps/wheel-$version
    [[ -x $environment/bin/python ]] || "$python" -m venv "$environment" || fail "$python -m venv failed"
    "$environment/bin/python" -m pip --disable-pip-version-check install --quiet "$BUILDER" ||
      fail "$BUILDER could not be installed for $python"
    python=$environment/bin/python
  fi
  echo "$python"
}

for word in "$@"; do
  python=$(builder "$word")
  "$python" -m pip --disable-pip-version-check wheel . --no-deps --no-build-isolation -w dist
done

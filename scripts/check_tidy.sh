#!/usr/bin/env bash
# clang-tidy over src/ and tools/: scripts/check_tidy.sh [build folder]. See scripts/lib/tidy.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python3 scripts/lib/tidy.py "${1:-build/release}"

#!/usr/bin/env bash
# clang-format over our C++ and CUDA sources: looks only, or rewrites them with --fix.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool=${CLANG_FORMAT:-clang-format-14}
command -v "$tool" >/dev/null || { echo "$tool is missing: scripts/setup.sh --dev" >&2; exit 1; }

mapfile -t files < <(find include src tools tests benchmarks examples python -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort)
if ((${#files[@]} == 0)); then echo "format: no sources"; exit 0; fi

if [[ ${1:-} == --fix ]]; then
  "$tool" -i "${files[@]}"
  echo "format: ${#files[@]} files"
elif "$tool" --dry-run --Werror "${files[@]}"; then
  echo "format: ${#files[@]} files are as they should be"
else
  echo "format: run 'make format'" >&2
  exit 1
fi

#!/usr/bin/env bash
# Runs the fuzzers of build/fuzz, two at a time, each for DEQ_FUZZ_SECONDS (default 60): all of them, or
# those named. They begin with the seeds of tests/fuzz/make_seeds.py and with tests/fuzz/corpus, which holds what earlier
# runs found of interest. What they find is put into build/fuzz/corpus and tried first the next time. An input that
# breaks a promise is left in build/fuzz/found, and the script fails.
#
# DEQ_FUZZ_SEED fixes the order in which inputs are tried.
#
# usage: scripts/fuzz.sh [--keep] [name ...]    such as: scripts/fuzz.sh jpeg png
#   --keep   fuzzes nothing: writes tests/fuzz/corpus anew, the fewest small inputs that reach all that is known
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly BUILD=$PWD/build/fuzz
readonly SECONDS_EACH=${DEQ_FUZZ_SECONDS:-60}
readonly AT_ONCE=${JOBS:-2}
readonly SEED=${DEQ_FUZZ_SEED:-0}  # 0: another one each time

keep=false
[[ ${1:-} == --keep ]] && keep=true && shift
names=("$@")
if ((${#names[@]} == 0)); then
  for harness in tests/fuzz/*.cpp; do
    name=$(basename "$harness" .cpp)
    [[ $name == fuzz ]] || names+=("$name")
  done
fi
for name in "${names[@]}"; do
  [[ -x $BUILD/bin/fuzz_$name ]] || { echo "fuzz: no $BUILD/bin/fuzz_$name; make fuzz builds it" >&2; exit 1; }
done

python3 tests/fuzz/make_seeds.py "$BUILD/seeds"
mkdir -p "$BUILD/found" "$BUILD/log"
# In memory where that is possible: the harnesses write thousands of files per second.
work=$(mktemp -d /dev/shm/deq_fuzz.XXXXXX 2>/dev/null || mktemp -d)
trap 'rm -rf "$work"' EXIT

# Libraries that are not instrumented use containers of ours, which detect_container_overflow cannot know.
export ASAN_OPTIONS=detect_container_overflow=0:quarantine_size_mb=16
export LSAN_OPTIONS=suppressions=$PWD/cmake/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

# keep NAME: what reaches more code than the seeds do, however often, of inputs up to 512 bytes
keep() {
  local name=$1 kept=tests/fuzz/corpus/$1 all=$work/all/$1 found=$work/found/$1
  mkdir -p "$BUILD/corpus/$name" "$kept" "$work/$name" "$all" "$found"
  cp -r "$BUILD/corpus/$name/." "$kept/." "$found"
  find "$found" -type f -size +512c -delete
  cp -r "$BUILD/seeds/$name/." "$all"
  TMPDIR=$work/$name "$BUILD/bin/fuzz_$name" -set_cover_merge=1 -use_counters=0 -rss_limit_mb=2048 "$all" "$found" >"$BUILD/log/$name" 2>&1
  for seed in "$BUILD/seeds/$name"/*; do rm "$all/$(basename "$seed")"; done
  rm -rf "$kept"
  [[ -z $(ls "$all") ]] || mv "$all" "$kept"
}
if $keep; then
  for name in "${names[@]}"; do keep "$name"; done
  find tests/fuzz/corpus -type f -size +0 -printf "%s\n" | awk "{ sum += \$1 } END { print NR, \"inputs of\", sum, \"bytes are kept\" }"
  exit
fi

# run NAME: one harness, its report in log/NAME
run() {
  local name=$1 size=16384
  local -a more=() kept=()
  [[ -d tests/fuzz/corpus/$name ]] && kept=("tests/fuzz/corpus/$name")
  [[ $name == config ]] && more=(-dict="$BUILD/seeds/config.dict")
  mkdir -p "$BUILD/corpus/$name" "$work/$name"
  # Large files, each read once: there ten times the input is more than what a harness spares.
  if [[ -d $BUILD/seeds/large/$name ]]; then
    TMPDIR=$work/$name "$BUILD/bin/fuzz_$name" -timeout=300 -rss_limit_mb=2048 -malloc_limit_mb=512 \
      -artifact_prefix="$BUILD/found/$name-" "$BUILD/seeds/large/$name"/* >"$BUILD/log/$name" 2>&1 || return
  fi
  TMPDIR=$work/$name "$BUILD/bin/fuzz_$name" "$BUILD/corpus/$name" "$BUILD/seeds/$name" "${kept[@]}" \
    -max_total_time="$SECONDS_EACH" -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=$size \
    -artifact_prefix="$BUILD/found/$name-" -print_final_stats=1 -verbosity=1 -seed="$SEED" "${more[@]}" >"$BUILD/log/$name" 2>&1
}

# report NAME: a line on what came of it
report() {
  local name=$1 tried
  tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$BUILD/log/$name")
  printf 'fuzz: %-14s %9s inputs tried\n' "$name" "${tried:-no}"
}

failed=()
declare -A running=()
finish_one() {
  local pid code=0 name
  wait -n -p pid || code=$?
  name=${running[$pid]}
  unset "running[$pid]"
  report "$name"
  if ((code != 0)); then
    failed+=("$name")
    tail -n 40 "$BUILD/log/$name" >&2
  fi
}
for name in "${names[@]}"; do
  while ((${#running[@]} >= AT_ONCE)); do finish_one; done
  run "$name" &
  running[$!]=$name
done
while ((${#running[@]})); do finish_one; done

((${#failed[@]} == 0)) || {
  echo "fuzz: broken: ${failed[*]}; the inputs are in build/fuzz/found, the reports in build/fuzz/log" >&2
  exit 1
}

#!/usr/bin/env bash
# Runs the tests of the CUDA kernels under the four tools of compute-sanitizer: memcheck (accesses out of
# bounds), racecheck (races in shared memory), initcheck (reads of memory that nobody
# wrote) and synccheck (barriers that not all threads reach). Needs a GPU, the CUDA toolkit and a release
# build of test_cuda. It takes minutes: every access of a kernel is watched.
#
# usage: scripts/check_kernels.sh [gtest filter]    such as: scripts/check_kernels.sh 'GroupNorm*'
#
#   DEQ_CUDA_TOOLS="memcheck racecheck"   only these tools
#   DEQ_TEST_EVERY=1                      all cases of the longest lists, not every 37th
#   COMPUTE_SANITIZER=FILE                the program, where it is not in the PATH
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Every test that compares a kernel with its reference. Left out: whole solves and models, which run the
# same kernels thousands of times; recordings, whose graphs the tools do not look into; and convolutions,
# which are cuDNN's alone.
readonly KERNELS='*CudaTest.*:SolversCuda.*-BatchCudaTest.*:RecordedStepCudaTest.*:MdeqCudaTest.*:ConvolutionCudaTest.*:CudaTest.EverySolver*:CudaTest.Gradients*:HalfStepsCudaTest.TheSame*:SolversCuda.Every*:SolversCuda.Samples*:SolversCuda.TheCpus*:SolversCuda.SolvesOne*'
readonly PROGRAM=build/release/bin/test_cuda
filter=${1:-$KERNELS}
sanitizer=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || true)}
[[ -n $sanitizer ]] || sanitizer=/usr/local/cuda/bin/compute-sanitizer

[[ -x $sanitizer ]] || { echo "check_kernels: no compute-sanitizer; it is part of the CUDA toolkit" >&2; exit 1; }
[[ -x $PROGRAM ]] || { echo "check_kernels: no $PROGRAM; make build makes it" >&2; exit 1; }

export DEQ_TEST_EVERY=${DEQ_TEST_EVERY:-37}
logs=build/check_kernels
mkdir -p "$logs"

# run TOOL: the tests under that tool, its report kept in $logs; fails where a kernel of ours did something wrong
run() {
  local tool=$1 status=0 log=$logs/$1.txt tests=$filter
  local -a options=(--tool "$tool" --error-exitcode 99) environment=()
  # torch's allocator keeps freed blocks, in which a kernel may read past the end of a tensor or what an older
  # tensor left, unseen. Without it every tensor has memory of its own. The other two look at shared memory.
  [[ $tool == memcheck || $tool == initcheck ]] && environment=(PYTORCH_NO_CUDA_MEMORY_CACHING=1)
  if [[ $tool == initcheck ]]; then
    # All kernels are watched, since it must see who wrote what ours read. It does not see all that cuBLAS and
    # cuDNN write, so that kernels of torch's that read their results are reported: only ours are judged.
    options+=(--show-backtrace no --print-limit 1000000)
  else
    options+=(--kernel-name kns=_ZN3deq --print-limit 20)
  fi
  [[ $tool == memcheck ]] && options+=(--report-api-errors no)
  # What a tool cannot judge. racecheck itself breaks down on cuBLAS's kernels in the feed-forward part ("failed to handle
  # a hardware exception"); ours in it have no shared memory. initcheck does not see what those kernels write, which
  # ours read. Many blocks take racecheck an hour, and have the races of a few.
  local left_out=
  [[ $tool == racecheck || $tool == initcheck ]] && left_out='FeedForwardCudaTest.*'
  [[ $tool == racecheck ]] && left_out+=':SolversCuda.ABatchOfManyBlocks'
  if [[ -n $left_out ]]; then
    [[ $tests == *-* ]] && tests+=: || tests+=-
    tests+=$left_out
  fi
  env "${environment[@]}" "$sanitizer" "${options[@]}" "$PROGRAM" --gtest_filter="$tests" >"$log" 2>&1 || status=$?
  if [[ $tool == initcheck ]]; then
    mv "$log" "$logs/initcheck-all.txt"
    sed '/^========= *Uninitialized/{N;/deq::/!d}; /^========= *\(by thread\|Address\)/d' "$logs/initcheck-all.txt" >"$log"
    [[ $status != 99 ]] || grep -q '^========= *Uninitialized\|  FAILED  ' "$log" || status=0
  fi
  grep -v 'RUN  ' "$log"
  # Where every test was skipped, nothing was checked.
  ! grep -q '\[  PASSED  \] 0 tests' "$log" || { echo "check_kernels: no test ran; is there a GPU?" >&2; exit 1; }
  return "$status"
}

failed=()
for tool in ${DEQ_CUDA_TOOLS:-memcheck racecheck initcheck synccheck}; do
  echo "check_kernels: $tool"
  run "$tool" || failed+=("$tool")
done
((${#failed[@]} == 0)) || { echo "check_kernels: errors in ${failed[*]}" >&2; exit 1; }

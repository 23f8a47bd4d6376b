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
# same kernels thousands of times, and recordings, whose graphs the tools do not look into.
readonly KERNELS='*CudaTest.*:SolversCuda.*-BatchCudaTest.*:RecordedStepCudaTest.*:MdeqCudaTest.*:CudaTest.EverySolver*:CudaTest.Gradients*:HalfStepsCudaTest.TheSame*:SolversCuda.Every*:SolversCuda.Samples*:SolversCuda.TheCpus*:SolversCuda.SolvesOne*'
readonly PROGRAM=build/release/bin/test_cuda
filter=${1:-$KERNELS}
sanitizer=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || true)}
[[ -n $sanitizer ]] || sanitizer=/usr/local/cuda/bin/compute-sanitizer

[[ -x $sanitizer ]] || { echo "check_kernels: no compute-sanitizer; it is part of the CUDA toolkit" >&2; exit 1; }
[[ -x $PROGRAM ]] || { echo "check_kernels: no $PROGRAM; make build makes it" >&2; exit 1; }

# torch's own kernels are not ours to judge: only those of namespace deq are watched, but by initcheck, which
# must see who wrote what ours read. torch's allocator keeps freed blocks, in which a kernel may read past the end of a tensor unseen: without it every tensor has
# memory of its own.
export PYTORCH_NO_CUDA_MEMORY_CACHING=1
export DEQ_TEST_EVERY=${DEQ_TEST_EVERY:-37}
failed=()
for tool in ${DEQ_CUDA_TOOLS:-memcheck racecheck initcheck synccheck}; do
  echo "check_kernels: $tool"
  options=(--tool "$tool" --error-exitcode 99 --print-limit 20)
  [[ $tool == initcheck ]] || options+=(--kernel-name kns=_ZN3deq)
  [[ $tool == memcheck ]] && options+=(--report-api-errors no)
  log=$(mktemp)
  "$sanitizer" "${options[@]}" "$PROGRAM" --gtest_filter="$filter" 2>&1 | tee "$log" || failed+=("$tool")
  # Where every test was skipped, nothing was checked.
  if grep -q '\[  PASSED  \] 0 tests' "$log"; then
    echo "check_kernels: no test ran; is there a GPU?" >&2
    exit 1
  fi
  rm -f "$log"
done
((${#failed[@]} == 0)) || { echo "check_kernels: errors in ${failed[*]}" >&2; exit 1; }

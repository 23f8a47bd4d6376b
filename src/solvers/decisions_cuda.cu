#include "solvers/decisions_cuda.h"

// Small systems are a chain of dependent operations, so what counts is latency, not throughput: one
// thread works through a sample's system, on a multiprocessor it shares with few others, with its
// numbers in the fastest memory they fit into.

namespace deq::decisions::cuda {
namespace {

constexpr int kJudges = 256;

/// One block: then the number of active samples needs no atomics and no second launch.
__global__ void judge_kernel(JudgeArguments arguments, int* active) {
  int total = 0;
  for (int64_t first = 0; first < arguments.batch; first += kJudges) {
    const int64_t b = first + threadIdx.x;
    const int still_active = b < arguments.batch && judge_sample(arguments, b) ? 1 : 0;
    total += __syncthreads_count(still_active);
  }
  if (threadIdx.x == 0) *active = total;
}

__global__ void anderson_kernel(AndersonArguments arguments) {
  __shared__ double system[kMaxAndersonMemory * kMaxAndersonMemory], alpha[kMaxAndersonMemory];
  choose_anderson(arguments, blockIdx.x, system, alpha);
}

constexpr int kWarp = 32;

int64_t broyden_numbers(int64_t steps) {
  return triangle(steps) + steps + steps + 1;
}

/// One warp per sample: it brings the Gram matrix and takes the coefficients away, its first lane
/// does the rest.
__global__ void broyden_kernel(BroydenArguments arguments) {
  extern __shared__ double shared[];
  const int64_t b = blockIdx.x, n = arguments.steps;
  double* gram = shared;
  double* along = gram + triangle(n);
  double* c = along + n;
  if (n > 0) {
    double* kept = arguments.gram + b * arguments.gram_stride;
    const double* newest = newest_gram_row(arguments, b);
    const int64_t old = triangle(n - 1);
    for (int64_t i = threadIdx.x; i < old; i += kWarp) gram[i] = kept[i];
    for (int64_t i = threadIdx.x; i < n; i += kWarp) gram[old + i] = kept[old + i] = newest[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) choose_broyden(arguments, b, gram, along, c);
  __syncthreads();
  for (int64_t i = threadIdx.x; i <= n; i += kWarp) arguments.coefficients[b * (n + 1) + i] = c[i];
}

__global__ void limited_kernel(LimitedArguments arguments) {
  choose_limited(arguments, blockIdx.x);
}

}  // namespace

void judge(const JudgeArguments& arguments, int* active, cudaStream_t stream) {
  judge_kernel<<<1, kJudges, 0, stream>>>(arguments, active);
}

void anderson(const AndersonArguments& arguments, cudaStream_t stream) {
  anderson_kernel<<<static_cast<unsigned>(arguments.batch), 1, 0, stream>>>(arguments);
}

void broyden(const BroydenArguments& arguments, cudaStream_t stream) {
  const auto bytes = static_cast<size_t>(broyden_numbers(arguments.steps)) * sizeof(double);
  broyden_kernel<<<static_cast<unsigned>(arguments.batch), kWarp, bytes, stream>>>(arguments);
}

void limited_broyden(const LimitedArguments& arguments, cudaStream_t stream) {
  limited_kernel<<<static_cast<unsigned>(arguments.batch), 1, 0, stream>>>(arguments);
}

}  // namespace deq::decisions::cuda

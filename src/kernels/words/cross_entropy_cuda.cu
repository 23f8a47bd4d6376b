#include <cmath>

#include "kernels/images/images_vectors_cuda.h"
#include "kernels/words/cross_entropy_cuda.h"

// A block owns a row of scores. Forward reads it once, with a running maximum; backward reads it
// and writes as much. Both are bound by memory bandwidth. Sums have a fixed order.

namespace deq::kernels::cuda {
namespace {

constexpr int kWordThreads = 256;

__device__ float exponential_of(float x) {
  return expf(x);
}
__device__ double exponential_of(double x) {
  return exp(x);
}

/// Σ exp(sᵢ) as exp(largest) · sum.
template <class F>
struct RunningSum {
  F largest = -INFINITY, sum = 0;

  __device__ void add(F other_largest, F other_sum) {
    if (!(other_sum > F(0)) && other_sum == other_sum) return;  // nothing in it; NaN stays
    const F next = other_largest > largest ? other_largest : largest;
    sum = sum * exponential_of(largest - next) + other_sum * exponential_of(other_largest - next);
    largest = next;
  }
};

template <class T, int V, class F = typename SumOf<T>::Type>
__global__ void __launch_bounds__(kWordThreads)
    costs_kernel(ScoresShape shape, const T* __restrict__ scores,
                 const int64_t* __restrict__ targets, F* __restrict__ log_sums,
                 F* __restrict__ costs) {
  const int64_t row = blockIdx.x;
  const T* const own = scores + row * shape.words;
  RunningSum<F> running;
  for (int64_t j = threadIdx.x * V; j < shape.words; j += kWordThreads * V) {
    F values[V], largest = -INFINITY, sum = 0;
    load(own + j, values);
#pragma unroll
    for (int k = 0; k < V; ++k) largest = values[k] > largest ? values[k] : largest;
    if (largest == F(-INFINITY)) largest = 0;  // words of probability 0 only, or NaN
#pragma unroll
    for (int k = 0; k < V; ++k) sum += exponential_of(values[k] - largest);
    running.add(largest, sum);
  }
  __shared__ F largest[kWordThreads], sums[kWordThreads];
  largest[threadIdx.x] = running.largest;
  sums[threadIdx.x] = running.sum;
  for (int half = kWordThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      running.add(largest[threadIdx.x + half], sums[threadIdx.x + half]);
      largest[threadIdx.x] = running.largest;
      sums[threadIdx.x] = running.sum;
    }
  }
  if (threadIdx.x > 0) return;
  const F log_sum = running.largest + log(running.sum);
  log_sums[row] = log_sum;
  costs[row] = log_sum - static_cast<F>(own[targets[row]]);
}

template <class T, int V, class F = typename SumOf<T>::Type>
__global__ void __launch_bounds__(kWordThreads)
    costs_backward_kernel(ScoresShape shape, const F* __restrict__ g, const T* __restrict__ scores,
                          const int64_t* __restrict__ targets, const F* __restrict__ log_sums,
                          T* __restrict__ pull) {
  const int64_t row = blockIdx.x, begin = row * shape.words, target = targets[row];
  const F along = g[row], log_sum = log_sums[row];
  for (int64_t j = threadIdx.x * V; j < shape.words; j += kWordThreads * V) {
    F values[V];
    load(scores + begin + j, values);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const F probability = exponential_of(values[k] - log_sum);
      values[k] = along * (j + k == target ? probability - F(1) : probability);
    }
    store(pull + begin + j, values);
  }
}

template <class Launch>
void with_scores(Number type, const ScoresShape& shape, const Launch& launch) {
  if (shape.vectors * shape.words == 0) return;
  if (type == Number::Float64) return with_width<double, double>(shape.words, launch);
  if (type == Number::Float32) return with_width<float, float>(shape.words, launch);
  with_width<__nv_bfloat16, float>(shape.words, launch);
}

}  // namespace

void word_costs(Number type, const ScoresShape& shape, const void* scores, const int64_t* targets,
                void* log_sums, void* costs, cudaStream_t stream) {
  with_scores(type, shape, [&]<class T, class F, int V>() {
    costs_kernel<T, V><<<static_cast<unsigned>(shape.vectors), kWordThreads, 0, stream>>>(
        shape, as<T>(scores), targets, as<F>(log_sums), as<F>(costs));
  });
}

void word_costs_backward(Number type, const ScoresShape& shape, const void* g, const void* scores,
                         const int64_t* targets, const void* log_sums, void* pull,
                         cudaStream_t stream) {
  with_scores(type, shape, [&]<class T, class F, int V>() {
    costs_backward_kernel<T, V><<<static_cast<unsigned>(shape.vectors), kWordThreads, 0, stream>>>(
        shape, as<F>(g), as<T>(scores), targets, as<F>(log_sums), as<T>(pull));
  });
}

}  // namespace deq::kernels::cuda

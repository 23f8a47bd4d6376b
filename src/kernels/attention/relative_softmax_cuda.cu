#include <cmath>

#include "kernels/attention/relative_softmax_cuda.h"
#include "kernels/images/images_vectors_cuda.h"

// A warp owns a row and holds it in registers, N numbers per lane. Bytes per score, in bfloat16:
// forward 6, and 4 more with dropout; backward 8 (10): bound by memory bandwidth.

namespace deq::kernels::cuda {
namespace {

constexpr int kWarp = 32, kWarps = 4;
constexpr unsigned kAll = 0xffffffff;

template <class F>
__device__ F warp_sum(F value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(kAll, value, offset);
  return value;
}

template <class F>
__device__ F warp_max(F value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const F other = __shfl_xor_sync(kAll, value, offset);
    value = other > value ? other : value;
  }
  return value;
}

__device__ int64_t row_of_warp() {
  return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
}
__device__ int lane() {
  return threadIdx.x % kWarp;
}

__device__ float exponential(float x) {
  return expf(x);
}
__device__ double exponential(double x) {
  return exp(x);
}

template <class T, int N, class F = typename SumOf<T>::Type>
__global__ void softmax_kernel(SoftmaxShape shape, F scale, int64_t horizon, int64_t hidden,
                               const T* __restrict__ content, const T* __restrict__ distances,
                               const T* __restrict__ dropout, T* __restrict__ probabilities,
                               T* __restrict__ dropped) {
  const int64_t row = row_of_warp();
  if (row >= shape.matrices * shape.queries) return;
  const int64_t query = row % shape.queries, itself = shape.keys - shape.queries + query;
  const int64_t near = horizon > 0 ? itself - horizon + 1 : 0;
  const int64_t first = near > hidden ? near : hidden;
  const T* const by_content = content + row * shape.keys;
  const T* const by_distance = distances + row * shape.columns + shape.queries - 1 - query;
  F values[N], largest = -INFINITY;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const int64_t key = k * kWarp + lane();
    const bool seen = key >= first && key <= itself;
    values[k] = seen ? scale * (static_cast<F>(by_content[key]) + static_cast<F>(by_distance[key]))
                     : F(-INFINITY);
    largest = values[k] > largest ? values[k] : largest;
  }
  largest = warp_max(largest);
  F sum = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    values[k] = exponential(values[k] - largest);
    sum += values[k];
  }
  const F share = F(1) / warp_sum(sum);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const int64_t key = k * kWarp + lane();
    if (key >= shape.keys) break;
    const T probability = static_cast<T>(values[k] * share);
    probabilities[row * shape.keys + key] = probability;
    if (dropout == nullptr) continue;
    const F factor = static_cast<F>(dropout[row * shape.keys + key]);
    dropped[row * shape.keys + key] = static_cast<T>(static_cast<F>(probability) * factor);
  }
}

template <class T, int N, class F = typename SumOf<T>::Type>
__global__ void softmax_backward_kernel(SoftmaxShape shape, F scale, const T* __restrict__ g,
                                        const T* __restrict__ probabilities,
                                        const T* __restrict__ dropout, T* __restrict__ for_content,
                                        T* __restrict__ for_distances) {
  const int64_t row = row_of_warp();
  if (row >= shape.matrices * shape.queries) return;
  const int64_t begin = row * shape.keys;
  F p[N], values[N], dot = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const int64_t key = k * kWarp + lane();
    p[k] = values[k] = 0;
    if (key >= shape.keys) continue;
    p[k] = static_cast<F>(probabilities[begin + key]);
    values[k] = static_cast<F>(g[begin + key]);
    if (dropout != nullptr) values[k] *= static_cast<F>(dropout[begin + key]);
    dot += p[k] * values[k];
  }
  dot = warp_sum(dot);
  // The row of the distances has this row from `skipped` on, and zeros around it.
  const int64_t skipped = shape.queries - 1 - row % shape.queries;
  T* const distances = for_distances + row * shape.columns;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const int64_t key = k * kWarp + lane();
    if (key >= shape.keys) break;
    const T result = static_cast<T>(scale * p[k] * (values[k] - dot));
    for_content[begin + key] = result;
    if (skipped + key < shape.columns) distances[skipped + key] = result;
  }
  const T zero = static_cast<T>(F(0));
  for (int64_t column = lane(); column < skipped; column += kWarp) distances[column] = zero;
  for (int64_t column = skipped + shape.keys + lane(); column < shape.columns; column += kWarp) {
    distances[column] = zero;
  }
}

/// Calls launch.operator()<T, N>() for the numbers per lane that a row needs.
template <class T, class Launch>
void with_length(int64_t keys, const Launch& launch) {
  if (keys <= 4 * kWarp) return launch.template operator()<T, 4>();
  if (keys <= 12 * kWarp) return launch.template operator()<T, 12>();
  if (keys <= 32 * kWarp) return launch.template operator()<T, 32>();
  launch.template operator()<T, 64>();
}

template <class Launch>
void with_type(Number type, const SoftmaxShape& shape, const Launch& launch) {
  if (shape.matrices * shape.queries == 0) return;
  if (type == Number::Float64) return with_length<double>(shape.keys, launch);
  if (type == Number::Float32) return with_length<float>(shape.keys, launch);
  with_length<__nv_bfloat16>(shape.keys, launch);
}

unsigned blocks_of(const SoftmaxShape& shape) {
  return static_cast<unsigned>((shape.matrices * shape.queries + kWarps - 1) / kWarps);
}

}  // namespace

void relative_softmax(Number type, const SoftmaxShape& shape, double scale, int64_t horizon,
                      int64_t hidden, const void* content, const void* distances,
                      const void* dropout, void* probabilities, void* dropped,
                      cudaStream_t stream) {
  with_type(type, shape, [&]<class T, int N>() {
    softmax_kernel<T, N><<<blocks_of(shape), kWarps * kWarp, 0, stream>>>(
        shape, static_cast<typename SumOf<T>::Type>(scale), horizon, hidden, as<T>(content),
        as<T>(distances), as<T>(dropout), as<T>(probabilities), as<T>(dropped));
  });
}

void relative_softmax_backward(Number type, const SoftmaxShape& shape, double scale, const void* g,
                               const void* probabilities, const void* dropout, void* for_content,
                               void* for_distances, cudaStream_t stream) {
  with_type(type, shape, [&]<class T, int N>() {
    softmax_backward_kernel<T, N><<<blocks_of(shape), kWarps * kWarp, 0, stream>>>(
        shape, static_cast<typename SumOf<T>::Type>(scale), as<T>(g), as<T>(probabilities),
        as<T>(dropout), as<T>(for_content), as<T>(for_distances));
  });
}

}  // namespace deq::kernels::cuda

#include "kernels/common/sigmoid_cuda.h"
#include "kernels/images/images_vectors_cuda.h"
#include "kernels/recurrence/forget_pool_cuda.h"
#include "kernels/recurrence/forget_pool_numbers.h"

// A thread owns a feature of a row, or two neighbours where numbers have two bytes, and walks
// through time; a warp reads 128 bytes or more in a row. What it reads does not depend on the
// state, so that of some positions is on its way at once. Bytes per number of h in bfloat16: 12
// forward, 18 backward.

namespace deq::kernels::cuda {
namespace {

constexpr int kPoolThreads = 128;
constexpr int kPoolPositions = 4;  // read at once

template <class T, class F>
__device__ PoolNumber<F> pool_number(F candidate, F forget, F output) {
  return {tanh_of(candidate, T{}), sigmoid_of(forget, T{}), sigmoid_of(output, T{})};
}

/// The row of a thread and its first feature; false where there is none.
template <int V>
__device__ bool own_features(const PoolShape& shape, int64_t& row, int64_t& feature) {
  const int64_t vectors = shape.features / V;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kPoolThreads + threadIdx.x;
  row = i / vectors;
  feature = i % vectors * V;
  return row < shape.rows;
}

template <class T, int V, class F = typename SumOf<T>::Type>
__global__ void __launch_bounds__(kPoolThreads)
    pool_kernel(PoolShape shape, const T* __restrict__ y, const F* __restrict__ start,
                T* __restrict__ h, F* __restrict__ c) {
  const int64_t n = shape.features;
  int64_t row, feature;
  if (!own_features<V>(shape, row, feature)) return;
  const int64_t base = row * shape.positions;
  F state[V];
  load(start + row * n + feature, state);
  for (int64_t t = 0; t < shape.positions; t += kPoolPositions) {
    F candidate[kPoolPositions][V], forget[kPoolPositions][V], output[kPoolPositions][V];
#pragma unroll
    for (int p = 0; p < kPoolPositions; ++p) {
      if (t + p >= shape.positions) break;
      const T* const from = y + (base + t + p) * 3 * n + feature;
      load(from, candidate[p]);
      load(from + n, forget[p]);
      load(from + 2 * n, output[p]);
    }
#pragma unroll
    for (int p = 0; p < kPoolPositions; ++p) {
      if (t + p >= shape.positions) break;
      F hidden[V];
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const auto number = pool_number<T>(candidate[p][k], forget[p][k], output[p][k]);
        state[k] = number.state(state[k]);
        hidden[k] = number.hidden(state[k]);
      }
      const int64_t place = (base + t + p) * n + feature;
      store(c + place, state);
      store(h + place, hidden);
    }
  }
}

template <class T, int V, class F = typename SumOf<T>::Type>
__global__ void __launch_bounds__(kPoolThreads)
    pool_backward_kernel(PoolShape shape, const T* __restrict__ g, const F* __restrict__ g_last,
                         const T* __restrict__ y, const F* __restrict__ start,
                         const F* __restrict__ c, T* __restrict__ for_y,
                         F* __restrict__ for_start) {
  const int64_t n = shape.features;
  int64_t row, feature;
  if (!own_features<V>(shape, row, feature)) return;
  const int64_t base = row * shape.positions, own = row * n + feature;
  F later[V], state[V];
  load(g_last + own, later);
  const F* const first = start + own;
  load(shape.positions > 0 ? c + (base + shape.positions - 1) * n + feature : first, state);
  for (int64_t t = shape.positions - 1; t >= 0; t -= kPoolPositions) {
    F candidate[kPoolPositions][V], forget[kPoolPositions][V], output[kPoolPositions][V];
    F pulled[kPoolPositions][V], before[kPoolPositions][V];
#pragma unroll
    for (int p = 0; p < kPoolPositions; ++p) {
      if (t - p < 0) break;
      const int64_t place = (base + t - p) * n + feature;
      const T* const from = y + (base + t - p) * 3 * n + feature;
      load(from, candidate[p]);
      load(from + n, forget[p]);
      load(from + 2 * n, output[p]);
      load(g + place, pulled[p]);
      load(t - p > 0 ? c + place - n : first, before[p]);
    }
#pragma unroll
    for (int p = 0; p < kPoolPositions; ++p) {
      if (t - p < 0) break;
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const auto number = pool_number<T>(candidate[p][k], forget[p][k], output[p][k]);
        const auto result = number.gradients(pulled[p][k], later[k], before[p][k], state[k]);
        candidate[p][k] = result.candidate;
        forget[p][k] = result.forget;
        output[p][k] = result.output;
        later[k] = result.before;
        state[k] = before[p][k];
      }
      T* const to = for_y + (base + t - p) * 3 * n + feature;
      store(to, candidate[p]);
      store(to + n, forget[p]);
      store(to + 2 * n, output[p]);
    }
  }
  store(for_start + own, later);
}

/// Calls launch.operator()<T, V>(blocks).
template <class Launch>
void for_pools(Number type, const PoolShape& shape, const Launch& launch) {
  if (shape.rows * shape.features == 0) return;
  const auto blocks = [&shape](int64_t width) {
    const int64_t threads = shape.rows * (shape.features / width);
    return static_cast<unsigned>((threads + kPoolThreads - 1) / kPoolThreads);
  };
  if (type == Number::Float64) return launch.template operator()<double, 1>(blocks(1));
  if (type == Number::Float32) return launch.template operator()<float, 1>(blocks(1));
  if (shape.features % 2 > 0) return launch.template operator()<__nv_bfloat16, 1>(blocks(1));
  launch.template operator()<__nv_bfloat16, 2>(blocks(2));
}

}  // namespace

void forget_pool(Number type, const PoolShape& shape, const void* y, const void* start, void* h,
                 void* c, cudaStream_t stream) {
  for_pools(type, shape, [&]<class T, int V>(unsigned blocks) {
    using F = typename SumOf<T>::Type;
    pool_kernel<T, V>
        <<<blocks, kPoolThreads, 0, stream>>>(shape, as<T>(y), as<F>(start), as<T>(h), as<F>(c));
  });
}

void forget_pool_backward(Number type, const PoolShape& shape, const PoolTape& tape, void* for_y,
                          void* for_start, cudaStream_t stream) {
  for_pools(type, shape, [&]<class T, int V>(unsigned blocks) {
    using F = typename SumOf<T>::Type;
    pool_backward_kernel<T, V><<<blocks, kPoolThreads, 0, stream>>>(
        shape, as<T>(tape.g), as<F>(tape.g_last), as<T>(tape.y), as<F>(tape.start), as<F>(tape.c),
        as<T>(for_y), as<F>(for_start));
  });
}

}  // namespace deq::kernels::cuda

#include "kernels/common/sigmoid_cuda.h"
#include "kernels/feed_forward/gate_cuda.h"
#include "kernels/feed_forward/gate_numbers.h"
#include "kernels/images/images_vectors_cuda.h"

// A thread owns 16 bytes of kRows rows, where the length of half a row allows it, and reads all of
// them before it writes. Bytes per number of h in bfloat16: 6 forward, 12 backward. Bound by memory
// bandwidth.

namespace deq::kernels::cuda {
namespace {

constexpr int kMostThreads = 256, kRows = 2;

template <class T, class F>
__device__ GateNumber<F> gate_number(F a, F u) {
  return {a, u, sigmoid_of(a, T{})};
}

template <class T, int V>
__global__ void gate_kernel(GateShape shape, const T* __restrict__ both, T* __restrict__ h) {
  using F = typename SumOf<T>::Type;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * V;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
  if (column >= shape.half) return;
  F a[kRows][V], u[kRows][V];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (first + row >= shape.rows) break;
    const T* const from = both + (first + row) * 2 * shape.half + column;
    load(from, a[row]);
    load(from + shape.half, u[row]);
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (first + row >= shape.rows) break;
#pragma unroll
    for (int k = 0; k < V; ++k) a[row][k] = gate_number<T>(a[row][k], u[row][k]).hidden();
    store(h + (first + row) * shape.half + column, a[row]);
  }
}

template <class T, int V>
__global__ void gate_backward_kernel(GateShape shape, const T* __restrict__ g,
                                     const T* __restrict__ both, T* __restrict__ for_both,
                                     T* __restrict__ h) {
  using F = typename SumOf<T>::Type;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * V;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
  if (column >= shape.half) return;
  F pulled[kRows][V], a[kRows][V], u[kRows][V];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (first + row >= shape.rows) break;
    const T* const from = both + (first + row) * 2 * shape.half + column;
    load(g + (first + row) * shape.half + column, pulled[row]);
    load(from, a[row]);
    load(from + shape.half, u[row]);
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (first + row >= shape.rows) break;
    F for_u[V], again[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const auto number = gate_number<T>(a[row][k], u[row][k]);
      again[k] = number.hidden();
      for_u[k] = number.for_up(pulled[row][k]);
      a[row][k] = number.for_gate(pulled[row][k]);
    }
    T* const to = for_both + (first + row) * 2 * shape.half + column;
    store(to, a[row]);
    store(to + shape.half, for_u);
    store(h + (first + row) * shape.half + column, again);
  }
}

/// Calls launch.operator()<T, V>(grid, threads).
template <class Launch>
void for_gates(Number type, const GateShape& shape, const Launch& launch) {
  if (shape.rows * shape.half == 0) return;
  const auto of_width = [&]<class T, class, int V>() {
    const int64_t vectors = shape.half / V;
    const auto threads =
        static_cast<int>(vectors < kMostThreads ? (vectors + 31) / 32 * 32 : int64_t{kMostThreads});
    const dim3 grid(static_cast<unsigned>((shape.rows + kRows - 1) / kRows),
                    static_cast<unsigned>((vectors + threads - 1) / threads));
    launch.template operator()<T, V>(grid, threads);
  };
  if (type == Number::Float64) return with_width<double, double>(shape.half, of_width);
  if (type == Number::Float32) return with_width<float, float>(shape.half, of_width);
  with_width<__nv_bfloat16, __nv_bfloat16>(shape.half, of_width);
}

}  // namespace

void gate(Number type, const GateShape& shape, const void* both, void* h, cudaStream_t stream) {
  for_gates(type, shape, [&]<class T, int V>(dim3 grid, int threads) {
    gate_kernel<T, V><<<grid, threads, 0, stream>>>(shape, as<T>(both), as<T>(h));
  });
}

void gate_backward(Number type, const GateShape& shape, const void* g, const void* both,
                   void* for_both, void* h, cudaStream_t stream) {
  for_gates(type, shape, [&]<class T, int V>(dim3 grid, int threads) {
    gate_backward_kernel<T, V>
        <<<grid, threads, 0, stream>>>(shape, as<T>(g), as<T>(both), as<T>(for_both), as<T>(h));
  });
}

}  // namespace deq::kernels::cuda

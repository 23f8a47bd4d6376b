#include "kernels/norms/group_norm_blocks_cuda.h"

namespace deq::kernels::cuda {
namespace {

using namespace group_norm_blocks;

/// Vectors of this many bytes that a thread keeps, at most: two blocks of a multiprocessor share
/// its registers.
constexpr int kept_vectors(int bytes) {
  return bytes <= 8 ? 12 : 6;
}

/// Hides from the compiler what it knows of a kept vector, which is then kept as it lies in memory,
/// not as the many more registers of the numbers made of it.
template <class T, int V>
__device__ __forceinline__ void keep_packed(Vector<T, V>& vector) {
  if constexpr (sizeof(T) < 4 && V * sizeof(T) >= 4) {
    auto* const words = reinterpret_cast<unsigned*>(&vector);
#pragma unroll
    for (int i = 0; i < static_cast<int>(V * sizeof(T) / 4); ++i) asm volatile("" : "+r"(words[i]));
  }
}

/// Sums are about the group's first number, so that the variance of numbers far from zero does not
/// cancel.
template <class T, class Y, int V, int N, class F = typename SumOf<T>::Type>
__global__ void __launch_bounds__(kGroupNormThreads, 2)
    forward_kernel(const T* __restrict__ xs, int64_t x_stride, const T* __restrict__ addends,
                   int64_t addend_stride, const F* __restrict__ weights,
                   const F* __restrict__ biases, Y* __restrict__ ys, int64_t y_stride,
                   F* __restrict__ means, F* __restrict__ rstds, Plan plan, double eps, bool relu) {
  extern __shared__ double shared[];
  __shared__ double moments[2 * kMostBundled];
  const Share share = share_of<V>(plan);
  const T* const x = of_sample(xs, x_stride, share);
  Vector<T, V> kept[N > 0 ? N : 1];
  if constexpr (N > 0) {
    for_pixels<N>(share, plan, [&](int i, int at) { kept[i] = vector_at<V>(x + at); });
#pragma unroll
    for (int i = 0; i < N; ++i) keep_packed(kept[i]);
  }
  const auto load_x = [&](int i, int at, F(&values)[V]) {
    if constexpr (N > 0) {
      unpack(kept[i], values);
    } else {
      load(x + at, values);
    }
  };
  const int64_t first = share.first_channel + share.own * plan.per_group;
  const F pivot = static_cast<F>(xs[share.sample * x_stride + first]);
  F sums[2] = {};
  for_pixels<N>(share, plan, [&](int i, int at) {
    F values[V];
    load_x(i, at, values);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const F away = values[k] - pivot;
      sums[0] += away;
      sums[1] += away * away;
    }
  });
  mean_over_groups<V>(sums, plan, reinterpret_cast<F*>(shared), moments);
#pragma unroll
  for (int i = 0; i < N; ++i) keep_packed(kept[i]);
  const double away = moments[2 * share.own];
  double variance = moments[2 * share.own + 1] - away * away;
  variance = variance < 0 ? 0 : variance;  // NaN stays
  const F mean = static_cast<F>(static_cast<double>(pivot) + away);
  const F rstd = F(1) / sqrt(static_cast<F>(variance + eps));
  if (threadIdx.x < plan.columns && share.channel == first) {
    means[share.group] = mean;
    rstds[share.group] = rstd;
  }

  F scale[V], shift[V];
  load_or(F(1), weights, share.channel, scale);
  load_or(F(0), biases, share.channel, shift);
#pragma unroll
  for (int k = 0; k < V; ++k) scale[k] *= rstd;
  const T* const addend = of_sample(addends, addend_stride, share);
  Y* const y = ys + share.sample * y_stride + share.channel;
  for_pixels<N>(share, plan, [&](int i, int at) {
    F values[V], added[V] = {};
    load_x(i, at, values);
    if (addend != nullptr) load(addend + at, added);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const F value = (values[k] - mean) * scale[k] + shift[k] + added[k];
      values[k] = relu && value < F(0) ? F(0) : value;
    }
    store(y + at, values);
  });
}

/// Whether a thread can keep its pixels, `most` of them.
bool keeps(const Plan& plan, int most) {
  return (plan.pixels + plan.lanes - 1) / plan.lanes <= most;
}

}  // namespace

void group_norm(const GroupNormTypes& types, const GroupNormShape& shape, const GroupNormForward& a,
                cudaStream_t stream) {
  with_types(types, shape, [&]<class T, class Y, int V>() {
    using F = typename SumOf<T>::Type;
    constexpr int kKept = kept_vectors(V * sizeof(T));
    const auto plan = plan_of(shape, V, sizeof(T));
    const auto kernel =
        keeps(plan, kKept) ? forward_kernel<T, Y, V, kKept> : forward_kernel<T, Y, V, 0>;
    kernel<<<blocks_of(shape, plan), plan.threads, 2 * sizeof(F) * plan.threads, stream>>>(
        as<T>(a.x.data), a.x.stride, as<T>(a.addend.data), a.addend.stride, as<F>(a.weight),
        as<F>(a.bias), as<Y>(a.y.data), a.y.stride, as<F>(a.mean), as<F>(a.rstd), plan, a.eps,
        a.relu);
  });
}

}  // namespace deq::kernels::cuda

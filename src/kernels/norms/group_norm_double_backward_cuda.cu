#include "kernels/norms/group_norm_blocks_cuda.h"

namespace deq::kernels::cuda {
namespace {

using namespace group_norm_blocks;

/// The notation is that of reference::group_norm_double_backward.
template <class T, class Y, int V, class F = typename SumOf<T>::Type>
__global__ void __launch_bounds__(kGroupNormThreads)
    double_backward_kernel(const T* __restrict__ vs, int64_t v_stride,
                           const T* __restrict__ v_addends, int64_t v_addend_stride,
                           const Y* __restrict__ gs, int64_t g_stride, const T* __restrict__ xs,
                           int64_t x_stride, const Y* __restrict__ ys, int64_t y_stride,
                           const F* __restrict__ means, const F* __restrict__ rstds,
                           const F* __restrict__ weights, Y* __restrict__ for_gs,
                           T* __restrict__ for_xs, F* __restrict__ channel_sums, Plan plan) {
  constexpr int kSums = 5;  // of v, v x̂, a, a x̂, v a
  extern __shared__ double shared[];
  __shared__ double group_means[kSums * kMostBundled];
  F* const scratch = reinterpret_cast<F*>(shared);
  const Share share = share_of<V>(plan);
  const T* const v = of_sample(vs, v_stride, share);
  const Y* const g = of_sample(gs, g_stride, share);
  const T* const x = of_sample(xs, x_stride, share);
  const Y* const y = of_sample(ys, y_stride, share);
  const F mean = means[share.group], rstd = rstds[share.group];
  F weight[V], of_g[V] = {}, of_g_normal[V] = {}, of_g_v[V] = {};  // Σ ∂y, Σ ∂y x̂, Σ ∂y v
  F sums[kSums] = {};
  load_or(F(1), weights, share.channel, weight);
#pragma unroll 2
  for (int pixel = share.pixel; pixel < plan.pixels; pixel += plan.lanes) {
    const int64_t at = static_cast<int64_t>(pixel) * plan.channels;
    F cotangent[V], pulled[V], values[V];
    load(v + at, cotangent);
    load_pulled(g, y, at, pulled);
    load(x + at, values);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const F normal = (values[k] - mean) * rstd;
      sums[0] += cotangent[k];
      sums[1] += cotangent[k] * normal;
      of_g[k] += pulled[k];
      of_g_normal[k] += pulled[k] * normal;
      of_g_v[k] += pulled[k] * cotangent[k];
    }
  }
#pragma unroll
  for (int k = 0; k < V; ++k) {
    sums[2] += weight[k] * of_g[k];
    sums[3] += weight[k] * of_g_normal[k];
    sums[4] += weight[k] * of_g_v[k];
  }
  mean_over_groups<V>(sums, plan, scratch, group_means);
  const double* const own = group_means + kSums * share.own;
  const F of_v = static_cast<F>(own[0]), of_v_normal = static_cast<F>(own[1]);
  const F of_a = static_cast<F>(own[2]), of_a_normal = static_cast<F>(own[3]);
  const F together = static_cast<F>(own[4] - own[0] * own[2] - own[1] * own[3]);
  if (channel_sums != nullptr) {
    F for_weight[1][V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      for_weight[0][k] = rstd * (of_g_v[k] - of_v * of_g[k] - of_v_normal * of_g_normal[k]);
    }
    sum_over_lanes(for_weight, plan, scratch,
                   channel_sums + share.sample * plan.channels + share.first_channel, 0);
  }

  const T* const v_addend = of_sample(v_addends, v_addend_stride, share);
  Y* const for_g = of_dense_sample(for_gs, plan, share);
  T* const for_x = of_dense_sample(for_xs, plan, share);
#pragma unroll 2
  for (int pixel = share.pixel; pixel < plan.pixels; pixel += plan.lanes) {
    const int64_t at = static_cast<int64_t>(pixel) * plan.channels;
    F cotangent[V], pulled[V], values[V], pushed[V] = {};
    load(v + at, cotangent);
    load_pulled(g, y, at, pulled);
    load(x + at, values);
    if (v_addend != nullptr) load(v_addend + at, pushed);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const F normal = (values[k] - mean) * rstd;
      const F projected_v = cotangent[k] - of_v - normal * of_v_normal;
      const F projected_a = weight[k] * pulled[k] - of_a - normal * of_a_normal;
      pushed[k] += weight[k] * rstd * projected_v;
      values[k] = -rstd * rstd *
                  (normal * together + of_a_normal * projected_v + of_v_normal * projected_a);
    }
    store(for_x + at, values);
    keep_positive(y == nullptr ? nullptr : y + at, pushed);
    store(for_g + at, pushed);
  }
}

}  // namespace

void group_norm_double_backward(const GroupNormTypes& types, const GroupNormShape& shape,
                                const GroupNormDoubleBackward& a, cudaStream_t stream) {
  with_types(types, shape, [&]<class T, class Y, int V>() {
    using F = typename SumOf<T>::Type;
    const auto plan = plan_of(shape, V, sizeof(T));
    const int numbers = V > 5 ? V : 5;
    double_backward_kernel<T, Y, V>
        <<<blocks_of(shape, plan), plan.threads, numbers * sizeof(F) * plan.threads, stream>>>(
            as<T>(a.v.data), a.v.stride, as<T>(a.v_addend.data), a.v_addend.stride, as<Y>(a.g.data),
            a.g.stride, as<T>(a.x.data), a.x.stride, as<Y>(a.y.data), a.y.stride, as<F>(a.mean),
            as<F>(a.rstd), as<F>(a.weight), as<Y>(a.for_g), as<T>(a.for_x), as<F>(a.sums), plan);
  });
}

}  // namespace deq::kernels::cuda

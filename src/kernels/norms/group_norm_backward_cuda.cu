#include "kernels/norms/group_norm_blocks_cuda.h"

namespace deq::kernels::cuda {
namespace {

using namespace group_norm_blocks;

/// Bytes of shared memory of a block, at most: where a device has as much, two blocks share a
/// multiprocessor.
int64_t most_shared() {
  constexpr int kTwoBlocks = 110 * 1024;
  int device = 0, most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  most -= kMostBundled * 2 * static_cast<int>(sizeof(double));  // the groups' means
  return most < kTwoBlocks ? most : kTwoBlocks;
}

__host__ __device__ int pixels_of_thread(const Plan& plan) {
  return (plan.pixels + plan.lanes - 1) / plan.lanes;
}

/// With Kept, what a thread has read waits for the second pass in shared memory, at places of its
/// own. (In registers, as in the forward pass, it was no faster than reading again.)
template <class T, class Y, int V, bool Kept, class F = typename SumOf<T>::Type>
__global__ void __launch_bounds__(kGroupNormThreads, 2)
    backward_kernel(const Y* __restrict__ gs, int64_t g_stride, const T* __restrict__ xs,
                    int64_t x_stride, const Y* __restrict__ ys, int64_t y_stride,
                    const F* __restrict__ means, const F* __restrict__ rstds,
                    const F* __restrict__ weights, T* __restrict__ for_xs,
                    T* __restrict__ for_addends, F* __restrict__ channel_sums, Plan plan,
                    int kept_from) {
  extern __shared__ double shared[];
  __shared__ double group_means[2 * kMostBundled];
  F* const scratch = reinterpret_cast<F*>(shared);
  const Share share = share_of<V>(plan);
  const Y* const g = of_sample(gs, g_stride, share);
  const T* const x = of_sample(xs, x_stride, share);
  const Y* const y = of_sample(ys, y_stride, share);
  const F mean = means[share.group], rstd = rstds[share.group];
  F weight[V], own[2][V] = {};  // Σ ∂y, Σ ∂y x̂
  load_or(F(1), weights, share.channel, weight);
  // Vectors of one pixel of every thread lie side by side.
  const int row = static_cast<int>(blockDim.x) * V, own_vector = static_cast<int>(threadIdx.x) * V;
  Y* const kept_g = reinterpret_cast<Y*>(shared + kept_from);
  T* const kept_x = reinterpret_cast<T*>(kept_g + pixels_of_thread(plan) * row);
  int kept = own_vector;
  for_pixels<0>(share, plan, [&](int, int at) {
    F pulled[V], values[V];
    load_pulled(g, y, at, pulled);
    load(x + at, values);
    if constexpr (Kept) {
      store(kept_g + kept, pulled);
      store(kept_x + kept, values);
      kept += row;
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      own[0][k] += pulled[k];
      own[1][k] += pulled[k] * ((values[k] - mean) * rstd);
    }
  });
  F sums[2] = {};
#pragma unroll
  for (int k = 0; k < V; ++k) {
    sums[0] += weight[k] * own[0][k];
    sums[1] += weight[k] * own[1][k];
  }
  mean_over_groups<V>(sums, plan, scratch, group_means);
  const F of_a = static_cast<F>(group_means[2 * share.own]);
  const F of_a_normal = static_cast<F>(group_means[2 * share.own + 1]);
  if (channel_sums != nullptr) {
    const int64_t samples = gridDim.x / (plan.groups / plan.bundle);
    sum_over_lanes(own, plan, scratch,
                   channel_sums + share.sample * plan.channels + share.first_channel,
                   samples * plan.channels);
  }

  T* const for_x = of_dense_sample(for_xs, plan, share);
  T* const for_addend = of_dense_sample(for_addends, plan, share);
  kept = own_vector;
  for_pixels<0>(share, plan, [&](int, int at) {
    F pulled[V], values[V];
    if constexpr (Kept) {
      load(kept_g + kept, pulled);
      load(kept_x + kept, values);
      kept += row;
    } else {
      load_pulled(g, y, at, pulled);
      load(x + at, values);
    }
    if (for_addend != nullptr) store(for_addend + at, pulled);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const F normal = (values[k] - mean) * rstd;
      values[k] = rstd * (weight[k] * pulled[k] - of_a - normal * of_a_normal);
    }
    store(for_x + at, values);
  });
}

}  // namespace

void group_norm_backward(const GroupNormTypes& types, const GroupNormShape& shape,
                         const GroupNormBackward& a, cudaStream_t stream) {
  with_types(types, shape, [&]<class T, class Y, int V>() {
    using F = typename SumOf<T>::Type;
    const auto plan = plan_of(shape, V, sizeof(T));
    const int numbers = a.sums != nullptr ? 2 * V : 2;
    const int scratch = static_cast<int>(numbers * sizeof(F)) * plan.threads;  // of whole doubles
    const int64_t kept = static_cast<int64_t>(pixels_of_thread(plan)) * plan.threads * V *
                         static_cast<int64_t>(sizeof(T) + sizeof(Y));
    const bool keeps = scratch + kept <= most_shared();
    const auto kernel = keeps ? backward_kernel<T, Y, V, true> : backward_kernel<T, Y, V, false>;
    const int bytes = scratch + (keeps ? static_cast<int>(kept) : 0);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<blocks_of(shape, plan), plan.threads, bytes, stream>>>(
        as<Y>(a.g.data), a.g.stride, as<T>(a.x.data), a.x.stride, as<Y>(a.y.data), a.y.stride,
        as<F>(a.mean), as<F>(a.rstd), as<F>(a.weight), as<T>(a.for_x), as<T>(a.for_addend),
        as<F>(a.sums), plan, scratch / static_cast<int>(sizeof(double)));
  });
}

}  // namespace deq::kernels::cuda

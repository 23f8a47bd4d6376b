#pragma once

#include "kernels/images/images_vectors_cuda.h"
#include "kernels/norms/group_norm_cuda.h"
#include "kernels/norms/group_norm_plan.h"

// What the three kernels of group_norm_cuda.h share.
//
// A block owns one group of one sample, or a bundle of neighbouring groups where the channels of
// one are fewer than the 32 bytes that memory gives at once. Its threads are columns (V
// neighbouring channels, read as one) × lanes (pixels): a first pass sums, a second one writes. In
// between the forward pass keeps what it read in registers where a thread has few pixels, so that
// all its reads are under way at once and there are no others, and the backward pass in shared
// memory; otherwise, and in the double backward pass, which has too much to keep, the second pass
// reads again, from the second-level cache.
//
// Bytes per number in bfloat16, with each input counted once: forward 4 (6 with an addend),
// backward 6 (8 with a ReLU, 10 with the addend's gradient), double backward 10 (12 with a ReLU).
// There are no more than 20 operations per number: all are bound by memory bandwidth. Sums have a
// fixed order.

namespace deq::kernels::cuda::group_norm_blocks {

constexpr int kSector = 32;       // bytes
constexpr int kMostBundled = 16;  // groups of one channel of two bytes

struct Plan {
  int channels, groups, per_group, pixels;
  int bundle;  // groups of a block
  int columns, lanes, threads;
  double share;  // one over the numbers of a group
};

/// What a thread owns.
struct Share {
  int64_t sample;
  int first_channel;  // of the block
  int channel;        // the first of its own
  int own;            // its group, within the bundle
  int64_t group;      // its group, of all [batch, groups]
  int pixel;          // its first; `pixels` for the threads that the lanes leave over
};

template <int V>
__device__ Share share_of(const Plan& plan) {
  const int bundles = plan.groups / plan.bundle;
  const int column = static_cast<int>(threadIdx.x) % plan.columns;
  const int lane = static_cast<int>(threadIdx.x) / plan.columns;
  const int first_group = static_cast<int>(blockIdx.x) % bundles * plan.bundle;
  Share share;
  share.sample = blockIdx.x / bundles;
  share.first_channel = first_group * plan.per_group;
  share.channel = share.first_channel + column * V;
  share.own = column * V / plan.per_group;
  share.group = share.sample * plan.groups + first_group + share.own;
  share.pixel = lane < plan.lanes ? lane : plan.pixels;
  return share;
}

/// body(i, offset from the sample's start) for all pixels of the thread. With N > 0 there are at
/// most N, and i counts them: as the loop is unrolled, arrays with that index are registers.
template <int N, class Body>
__device__ __forceinline__ void for_pixels(const Share& share, const Plan& plan, const Body& body) {
  if constexpr (N > 0) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int pixel = share.pixel + i * plan.lanes;
      if (pixel < plan.pixels) body(i, pixel * plan.channels);
    }
  } else {
#pragma unroll 4
    for (int pixel = share.pixel; pixel < plan.pixels; pixel += plan.lanes) {
      body(0, pixel * plan.channels);
    }
  }
}

inline __device__ double warp_sum(double sum) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  return sum;  // valid in the warp's first thread
}

/// means[own · K + k]: over the numbers of every group of the block, of the threads' sums.
/// `scratch` holds K · threads numbers and is free again afterwards.
template <int V, class F, int K>
__device__ void mean_over_groups(const F (&sums)[K], const Plan& plan, F* scratch, double* means) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
#pragma unroll
  for (int k = 0; k < K; ++k) scratch[k * threads + thread] = sums[k];
  __syncthreads();
  const int used = plan.columns * plan.lanes;
  for (int item = thread / 32; item < plan.bundle * K; item += threads / 32) {
    const int group = item / K, k = item % K;
    double sum = 0;
    for (int i = thread % 32; i < used; i += 32) {
      const bool belongs = plan.bundle == 1 || i % plan.columns * V / plan.per_group == group;
      if (belongs) sum += static_cast<double>(scratch[k * threads + i]);
    }
    sum = warp_sum(sum);
    if (thread % 32 == 0) means[item] = sum * plan.share;
  }
  __syncthreads();
}

/// out[r · row + c] = Σ over the lanes, for the R values of every channel c of the block.
/// `scratch` holds R · V · threads numbers.
template <class F, int R, int V>
__device__ void sum_over_lanes(const F (&values)[R][V], const Plan& plan, F* scratch, F* out,
                               int64_t row) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int k = 0; k < V; ++k) scratch[(r * V + k) * threads + thread] = values[r][k];
  }
  __syncthreads();
  for (int item = thread / 32; item < R * V * plan.columns; item += threads / 32) {
    const int column = item % plan.columns, value = item / plan.columns;
    double sum = 0;
    for (int lane = thread % 32; lane < plan.lanes; lane += 32) {
      sum += static_cast<double>(scratch[value * threads + lane * plan.columns + column]);
    }
    sum = warp_sum(sum);
    if (thread % 32 == 0) out[value / V * row + column * V + value % V] = static_cast<F>(sum);
  }
}

/// The V numbers of the thread's channels.
template <class F, int V>
__device__ void load_or(F otherwise, const F* numbers, int channel, F (&values)[V]) {
#pragma unroll
  for (int k = 0; k < V; ++k) values[k] = numbers != nullptr ? numbers[channel + k] : otherwise;
}

/// ∂y where y > 0.
template <class Y, class F, int V>
__device__ void load_pulled(const Y* g, const Y* y, int64_t at, F (&pulled)[V]) {
  load(g + at, pulled);
  keep_positive(y == nullptr ? nullptr : y + at, pulled);
}

template <class T>
__device__ const T* of_sample(const T* images, int64_t stride, const Share& share) {
  return images == nullptr ? nullptr : images + share.sample * stride + share.channel;
}

template <class T>
__device__ T* of_dense_sample(T* images, const Plan& plan, const Share& share) {
  if (images == nullptr) return nullptr;
  return images + share.sample * plan.pixels * plan.channels + share.channel;
}

inline Plan plan_of(const GroupNormShape& shape, int width, int bytes) {
  Plan plan{};
  plan.channels = static_cast<int>(shape.channels);
  plan.groups = static_cast<int>(shape.groups);
  plan.per_group = plan.channels / plan.groups;
  plan.pixels = static_cast<int>(shape.pixels);
  plan.bundle = 1;
  while (plan.bundle * plan.per_group * bytes < kSector && plan.groups % (2 * plan.bundle) == 0) {
    plan.bundle *= 2;
  }
  plan.columns = plan.bundle * plan.per_group / width;
  const int lanes = kGroupNormThreads / plan.columns;
  plan.lanes = plan.pixels < lanes ? plan.pixels : lanes;
  plan.threads = (plan.columns * plan.lanes + 31) / 32 * 32;
  plan.share = 1.0 / (static_cast<double>(plan.per_group) * plan.pixels);
  return plan;
}

inline unsigned blocks_of(const GroupNormShape& shape, const Plan& plan) {
  return static_cast<unsigned>(shape.batch * (plan.groups / plan.bundle));
}

template <class Launch>
void with_types(const GroupNormTypes& types, const GroupNormShape& shape, const Launch& launch) {
  if (shape.batch * shape.channels * shape.pixels == 0) return;
  const int64_t per_group = shape.channels / shape.groups;
  if (types.in == Number::Float64) return with_width<double, double>(per_group, launch);
  if (types.in == Number::Float32) return with_width<float, float>(per_group, launch);
  if (types.out == Number::Float32) return with_width<__nv_bfloat16, float>(per_group, launch);
  with_width<__nv_bfloat16, __nv_bfloat16>(per_group, launch);
}

}  // namespace deq::kernels::cuda::group_norm_blocks

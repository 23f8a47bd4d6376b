#include "kernels/group_norm_cuda.h"
#include "kernels/group_norm_plan.h"
#include "kernels/images_vectors_cuda.h"

// A block owns one group of one sample, or a bundle of neighbouring groups where the channels of
// one are fewer than the 32 bytes that memory gives at once. Its threads are columns (V
// neighbouring channels, read as one) × lanes (pixels): a first pass sums, a second one writes. In
// between the forward pass keeps what it read in registers where a thread has few pixels, so that
// all its reads are under way at once and there are no others; otherwise, and in the backward
// passes, which have too much to keep, the second pass reads again, from the second-level cache.
//
// Bytes a number in bfloat16, with each input counted once: forward 4 (6 with an addend), backward
// 6 (8 with a ReLU, 10 with the addend's gradient), double backward 10 (12 with a ReLU). There are
// no more than 20 operations a number: all are bound by memory bandwidth. Sums have a fixed order.

namespace deq::kernels::cuda {
namespace {

constexpr int kSector = 32;       // bytes
constexpr int kMostBundled = 16;  // groups of one channel of two bytes

struct Plan {
  int channels, groups, per_group, pixels;
  int bundle;  // groups of a block
  int columns, lanes, threads;
  double share;  // one over the numbers of a group
};

/// What a thread owns.
struct Place {
  int64_t sample;
  int first_channel;  // of the block
  int channel;        // the first of its own
  int own;            // its group, within the bundle
  int64_t group;      // its group, of all [batch, groups]
  int pixel;          // its first; `pixels` for the threads that the lanes leave over
};

template <int V>
__device__ Place place_of(const Plan& plan) {
  const int bundles = plan.groups / plan.bundle;
  const int column = static_cast<int>(threadIdx.x) % plan.columns;
  const int lane = static_cast<int>(threadIdx.x) / plan.columns;
  const int first_group = static_cast<int>(blockIdx.x) % bundles * plan.bundle;
  Place place;
  place.sample = blockIdx.x / bundles;
  place.first_channel = first_group * plan.per_group;
  place.channel = place.first_channel + column * V;
  place.own = column * V / plan.per_group;
  place.group = place.sample * plan.groups + first_group + place.own;
  place.pixel = lane < plan.lanes ? lane : plan.pixels;
  return place;
}

/// Vectors of so many bytes that a thread keeps, at most: two blocks of a multiprocessor share its
/// registers.
constexpr int kept_vectors(int bytes) {
  return bytes <= 8 ? 12 : 6;
}

/// body(i, offset from the sample's start) for all pixels of the thread. With N > 0 there are at
/// most N, and i counts them: as the loop is unrolled, arrays with that index are registers.
template <int N, class Body>
__device__ __forceinline__ void for_pixels(const Place& place, const Plan& plan, const Body& body) {
  if constexpr (N > 0) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int pixel = place.pixel + i * plan.lanes;
      if (pixel < plan.pixels) body(i, pixel * plan.channels);
    }
  } else {
#pragma unroll 4
    for (int pixel = place.pixel; pixel < plan.pixels; pixel += plan.lanes) {
      body(0, pixel * plan.channels);
    }
  }
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

__device__ double warp_sum(double sum) {
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
__device__ const T* of_sample(const T* images, int64_t stride, const Place& place) {
  return images == nullptr ? nullptr : images + place.sample * stride + place.channel;
}

template <class T>
__device__ T* of_dense_sample(T* images, const Plan& plan, const Place& place) {
  if (images == nullptr) return nullptr;
  return images + place.sample * plan.pixels * plan.channels + place.channel;
}

/// Sums are about the group's first number, so that the variance of numbers far from zero does not
/// cancel.
template <class T, class Y, int V, int N, class F = typename SumOf<T>::Type>
__global__ void __launch_bounds__(kGroupNormThreads, 2)
    forward_kernel(const T* __restrict__ xs, int64_t x_stride, const T* __restrict__ addends,
                   int64_t addend_stride, const F* __restrict__ weights,
                   const F* __restrict__ biases, Y* __restrict__ ys, F* __restrict__ means,
                   F* __restrict__ rstds, Plan plan, double eps, bool relu) {
  extern __shared__ double shared[];
  __shared__ double moments[2 * kMostBundled];
  const Place place = place_of<V>(plan);
  const T* const x = of_sample(xs, x_stride, place);
  Vector<T, V> kept[N > 0 ? N : 1];
  if constexpr (N > 0) {
    for_pixels<N>(place, plan, [&](int i, int at) { kept[i] = vector_at<V>(x + at); });
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
  const int64_t first = place.first_channel + place.own * plan.per_group;
  const F pivot = static_cast<F>(xs[place.sample * x_stride + first]);
  F sums[2] = {};
  for_pixels<N>(place, plan, [&](int i, int at) {
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
  const double away = moments[2 * place.own];
  double variance = moments[2 * place.own + 1] - away * away;
  variance = variance < 0 ? 0 : variance;  // NaN stays
  const F mean = static_cast<F>(static_cast<double>(pivot) + away);
  const F rstd = F(1) / sqrt(static_cast<F>(variance + eps));
  if (threadIdx.x < plan.columns && place.channel == first) {
    means[place.group] = mean;
    rstds[place.group] = rstd;
  }

  F scale[V], shift[V];
  load_or(F(1), weights, place.channel, scale);
  load_or(F(0), biases, place.channel, shift);
#pragma unroll
  for (int k = 0; k < V; ++k) scale[k] *= rstd;
  const T* const addend = of_sample(addends, addend_stride, place);
  Y* const y = of_dense_sample(ys, plan, place);
  for_pixels<N>(place, plan, [&](int i, int at) {
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

template <class T, class Y, int V, class F = typename SumOf<T>::Type>
__global__ void __launch_bounds__(kGroupNormThreads)
    backward_kernel(const Y* __restrict__ gs, int64_t g_stride, const T* __restrict__ xs,
                    int64_t x_stride, const Y* __restrict__ ys, int64_t y_stride,
                    const F* __restrict__ means, const F* __restrict__ rstds,
                    const F* __restrict__ weights, T* __restrict__ for_xs,
                    T* __restrict__ for_addends, F* __restrict__ channel_sums, Plan plan) {
  extern __shared__ double shared[];
  __shared__ double group_means[2 * kMostBundled];
  F* const scratch = reinterpret_cast<F*>(shared);
  const Place place = place_of<V>(plan);
  const Y* const g = of_sample(gs, g_stride, place);
  const T* const x = of_sample(xs, x_stride, place);
  const Y* const y = of_sample(ys, y_stride, place);
  const F mean = means[place.group], rstd = rstds[place.group];
  F weight[V], own[2][V] = {};  // Σ ∂y, Σ ∂y x̂
  load_or(F(1), weights, place.channel, weight);
#pragma unroll 4
  for (int pixel = place.pixel; pixel < plan.pixels; pixel += plan.lanes) {
    const int64_t at = static_cast<int64_t>(pixel) * plan.channels;
    F pulled[V], values[V];
    load_pulled(g, y, at, pulled);
    load(x + at, values);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      own[0][k] += pulled[k];
      own[1][k] += pulled[k] * ((values[k] - mean) * rstd);
    }
  }
  F sums[2] = {};
#pragma unroll
  for (int k = 0; k < V; ++k) {
    sums[0] += weight[k] * own[0][k];
    sums[1] += weight[k] * own[1][k];
  }
  mean_over_groups<V>(sums, plan, scratch, group_means);
  const F of_a = static_cast<F>(group_means[2 * place.own]);
  const F of_a_normal = static_cast<F>(group_means[2 * place.own + 1]);
  if (channel_sums != nullptr) {
    const int64_t samples = gridDim.x / (plan.groups / plan.bundle);
    sum_over_lanes(own, plan, scratch,
                   channel_sums + place.sample * plan.channels + place.first_channel,
                   samples * plan.channels);
  }

  T* const for_x = of_dense_sample(for_xs, plan, place);
  T* const for_addend = of_dense_sample(for_addends, plan, place);
#pragma unroll 4
  for (int pixel = place.pixel; pixel < plan.pixels; pixel += plan.lanes) {
    const int64_t at = static_cast<int64_t>(pixel) * plan.channels;
    F pulled[V], values[V];
    load_pulled(g, y, at, pulled);
    load(x + at, values);
    if (for_addend != nullptr) store(for_addend + at, pulled);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const F normal = (values[k] - mean) * rstd;
      values[k] = rstd * (weight[k] * pulled[k] - of_a - normal * of_a_normal);
    }
    store(for_x + at, values);
  }
}

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
  const Place place = place_of<V>(plan);
  const T* const v = of_sample(vs, v_stride, place);
  const Y* const g = of_sample(gs, g_stride, place);
  const T* const x = of_sample(xs, x_stride, place);
  const Y* const y = of_sample(ys, y_stride, place);
  const F mean = means[place.group], rstd = rstds[place.group];
  F weight[V], of_g[V] = {}, of_g_normal[V] = {}, of_g_v[V] = {};  // Σ ∂y, Σ ∂y x̂, Σ ∂y v
  F sums[kSums] = {};
  load_or(F(1), weights, place.channel, weight);
#pragma unroll 2
  for (int pixel = place.pixel; pixel < plan.pixels; pixel += plan.lanes) {
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
  const double* const own = group_means + kSums * place.own;
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
                   channel_sums + place.sample * plan.channels + place.first_channel, 0);
  }

  const T* const v_addend = of_sample(v_addends, v_addend_stride, place);
  Y* const for_g = of_dense_sample(for_gs, plan, place);
  T* const for_x = of_dense_sample(for_xs, plan, place);
#pragma unroll 2
  for (int pixel = place.pixel; pixel < plan.pixels; pixel += plan.lanes) {
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

Plan plan_of(const GroupNormShape& shape, int width, int bytes) {
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

/// Whether a thread can keep its pixels, `most` of them.
bool keeps(const Plan& plan, int most) {
  return (plan.pixels + plan.lanes - 1) / plan.lanes <= most;
}

unsigned blocks_of(const GroupNormShape& shape, const Plan& plan) {
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
        as<F>(a.bias), as<Y>(a.y), as<F>(a.mean), as<F>(a.rstd), plan, a.eps, a.relu);
  });
}

void group_norm_backward(const GroupNormTypes& types, const GroupNormShape& shape,
                         const GroupNormBackward& a, cudaStream_t stream) {
  with_types(types, shape, [&]<class T, class Y, int V>() {
    using F = typename SumOf<T>::Type;
    const auto plan = plan_of(shape, V, sizeof(T));
    const int numbers = a.sums != nullptr ? 2 * V : 2;
    backward_kernel<T, Y, V>
        <<<blocks_of(shape, plan), plan.threads, numbers * sizeof(F) * plan.threads, stream>>>(
            as<Y>(a.g.data), a.g.stride, as<T>(a.x.data), a.x.stride, as<Y>(a.y.data), a.y.stride,
            as<F>(a.mean), as<F>(a.rstd), as<F>(a.weight), as<T>(a.for_x), as<T>(a.for_addend),
            as<F>(a.sums), plan);
  });
}

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

#include <type_traits>

#include "kernels/images/images_vectors_cuda.h"
#include "kernels/norms/sum_norm_cuda.h"
#include "kernels/norms/sum_norm_plan.h"

// Over features a warp owns a token, over tokens a block owns neighbouring features of a sample,
// and each of its threads some of the tokens. Threads read vectors of 16 bytes where the features
// allow it, and keep them in registers until the sums are known. Bytes per number in bfloat16: 6
// forward, 6 backward. Bound by memory bandwidth.

namespace deq::kernels::cuda {
namespace {

constexpr int kTokensOfBlock = 8;   // warps, in norms over features
constexpr int kColumnsOfBlock = 8;  // vectors of features, in norms over tokens
constexpr unsigned kAllLanes = 0xffffffff;

inline __device__ float reciprocal_root(float x) {
  return rsqrtf(x);
}
inline __device__ double reciprocal_root(double x) {
  return rsqrt(x);
}

/// Squares of s = a + b are summed; then y = r s.
template <class T, int V>
struct Forward {
  using F = typename SumOf<T>::Type;
  const T *a, *b;
  T* y;
  F* r;

  struct Kept {
    F s[V];
  };
  /// What all numbers under one mean have in common.
  struct Share {
    F r;
  };

  __device__ void read(int64_t at, Kept& kept, F (&sums)[V]) const {
    F other[V];
    load(a + at, kept.s);
    load(b + at, other);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      kept.s[k] += other[k];
      sums[k] += kept.s[k] * kept.s[k];
    }
  }

  /// One thread of those that share a mean keeps it, at its place.
  __device__ Share share(F mean, int64_t place, bool keeps) const {
    const F scale = reciprocal_root(mean + static_cast<F>(kSumNormEps));
    if (keeps) r[place] = scale;
    return {scale};
  }

  __device__ void write(int64_t at, const Kept& kept, const Share (&shares)[V]) const {
    F values[V];
#pragma unroll
    for (int k = 0; k < V; ++k) values[k] = shares[k].r * kept.s[k];
    store(y + at, values);
  }
};

/// ∂y ⊙ y is summed; then ∂s = r (∂y − y mean).
template <class T, int V>
struct Backward {
  using F = typename SumOf<T>::Type;
  const T *g, *y;
  const F* r;
  T* for_s;

  struct Kept {
    F g[V], y[V];
  };
  struct Share {
    F r, mean;
  };

  __device__ void read(int64_t at, Kept& kept, F (&sums)[V]) const {
    load(g + at, kept.g);
    load(y + at, kept.y);
#pragma unroll
    for (int k = 0; k < V; ++k) sums[k] += kept.g[k] * kept.y[k];
  }

  __device__ Share share(F mean, int64_t place, bool /*keeps*/) const {
    return {r[place], mean};
  }

  __device__ void write(int64_t at, const Kept& kept, const Share (&shares)[V]) const {
    F values[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      values[k] = shares[k].r * (kept.g[k] - kept.y[k] * shares[k].mean);
    }
    store(for_s + at, values);
  }
};

/// N vectors of a token are a thread's.
template <class Pass, int V, int N>
__global__ void __launch_bounds__(kTokensOfBlock* kSumNormLanes)
    features_kernel(Pass pass, int64_t tokens, int vectors) {
  using F = typename Pass::F;
  const int lane = static_cast<int>(threadIdx.x) % kSumNormLanes;
  const int64_t token =
      static_cast<int64_t>(blockIdx.x) * kTokensOfBlock + threadIdx.x / kSumNormLanes;
  if (token >= tokens) return;
  const int64_t first = token * vectors * V;
  typename Pass::Kept kept[N];
  F sums[V] = {};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int vector = i * kSumNormLanes + lane;
    if (vector < vectors) pass.read(first + vector * V, kept[i], sums);
  }
  F sum = 0;
#pragma unroll
  for (int k = 0; k < V; ++k) sum += sums[k];
#pragma unroll
  for (int offset = kSumNormLanes / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, offset);
  }
  const auto one = pass.share(sum / static_cast<F>(vectors * V), token, lane == 0);
  typename Pass::Share shares[V];
#pragma unroll
  for (int k = 0; k < V; ++k) shares[k] = one;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int vector = i * kSumNormLanes + lane;
    if (vector < vectors) pass.write(first + vector * V, kept[i], shares);
  }
}

/// N tokens of a vector of features are a thread's.
template <class Pass, int V, int N>
__global__ void __launch_bounds__(kColumnsOfBlock* kSumNormLanes)
    tokens_kernel(Pass pass, int tokens, int vectors) {
  using F = typename Pass::F;
  // The k-th features of all vectors lie side by side, and rows begin at different banks.
  __shared__ F partial[kSumNormLanes][kColumnsOfBlock * (V + 1)];
  __shared__ typename Pass::Share found[kColumnsOfBlock * V];
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % kColumnsOfBlock, lane = thread / kColumnsOfBlock;
  const int blocks = (vectors + kColumnsOfBlock - 1) / kColumnsOfBlock;
  const int64_t sample = blockIdx.x / blocks;
  const int first_vector = static_cast<int>(blockIdx.x % blocks) * kColumnsOfBlock;
  const int64_t features = static_cast<int64_t>(vectors) * V;
  const int64_t first = sample * tokens * features + (first_vector + column) * V;
  const bool owns = first_vector + column < vectors;
  typename Pass::Kept kept[N];
  F sums[V] = {};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int token = i * kSumNormLanes + lane;
    if (owns && token < tokens) pass.read(first + token * features, kept[i], sums);
  }
#pragma unroll
  for (int k = 0; k < V; ++k) partial[lane][k * kColumnsOfBlock + column] = sums[k];
  __syncthreads();
  if (lane < V && owns) {  // the thread's column again, and its lane-th feature
    F sum = 0;
#pragma unroll
    for (int i = 0; i < kSumNormLanes; ++i) sum += partial[i][thread];
    const int64_t place = sample * features + (first_vector + column) * V + lane;
    found[thread] = pass.share(sum / static_cast<F>(tokens), place, /*keeps=*/true);
  }
  __syncthreads();
  if (!owns) return;
  typename Pass::Share shares[V];
#pragma unroll
  for (int k = 0; k < V; ++k) shares[k] = found[k * kColumnsOfBlock + column];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int token = i * kSumNormLanes + lane;
    if (token < tokens) pass.write(first + token * features, kept[i], shares);
  }
}

/// Calls launch.operator()<T, V>() for type and width.
template <class Launch>
void with_type(Number type, const TokenShape& shape, const Launch& launch) {
  if (shape.samples * shape.tokens * shape.features == 0) return;
  const auto of_width = [&]<class T, class, int V>() { launch.template operator()<T, V>(); };
  if (type == Number::Float64) return with_width<double, double>(shape.features, of_width);
  if (type == Number::Float32) return with_width<float, float>(shape.features, of_width);
  with_width<__nv_bfloat16, __nv_bfloat16>(shape.features, of_width);
}

template <class T, int V>
Forward<T, V> pass_of(const SumNormForward& a) {
  using F = typename SumOf<T>::Type;
  return {as<T>(a.a), as<T>(a.b), as<T>(a.y), as<F>(a.r)};
}
template <class T, int V>
Backward<T, V> pass_of(const SumNormBackward& a) {
  using F = typename SumOf<T>::Type;
  return {as<T>(a.g), as<T>(a.y), as<F>(a.r), as<T>(a.for_s)};
}

template <class Arguments>
void run_over_features(Number type, const TokenShape& shape, const Arguments& a,
                       cudaStream_t stream) {
  with_type(type, shape, [&]<class T, int V>() {
    const auto pass = pass_of<T, V>(a);
    using Pass = std::remove_const_t<decltype(pass)>;
    const int64_t tokens = shape.samples * shape.tokens;
    const int vectors = static_cast<int>(shape.features / V);
    const auto blocks = static_cast<unsigned>((tokens + kTokensOfBlock - 1) / kTokensOfBlock);
    const auto kernel = vectors <= kSumNormLanes       ? features_kernel<Pass, V, 1>
                        : vectors <= 2 * kSumNormLanes ? features_kernel<Pass, V, 2>
                        : vectors <= 4 * kSumNormLanes
                            ? features_kernel<Pass, V, 4>
                            : features_kernel<Pass, V, kMostFeatureVectors>;
    kernel<<<blocks, kTokensOfBlock * kSumNormLanes, 0, stream>>>(pass, tokens, vectors);
  });
}

template <class Arguments>
void run_over_tokens(Number type, const TokenShape& shape, const Arguments& a,
                     cudaStream_t stream) {
  with_type(type, shape, [&]<class T, int V>() {
    const auto pass = pass_of<T, V>(a);
    using Pass = std::remove_const_t<decltype(pass)>;
    const int tokens = static_cast<int>(shape.tokens);
    const int vectors = static_cast<int>(shape.features / V);
    const int64_t per_sample = (vectors + kColumnsOfBlock - 1) / kColumnsOfBlock;
    const auto blocks = static_cast<unsigned>(shape.samples * per_sample);
    const auto kernel = tokens <= kSumNormLanes       ? tokens_kernel<Pass, V, 1>
                        : tokens <= 3 * kSumNormLanes ? tokens_kernel<Pass, V, 3>
                                                      : tokens_kernel<Pass, V, kMostTokens>;
    kernel<<<blocks, kColumnsOfBlock * kSumNormLanes, 0, stream>>>(pass, tokens, vectors);
  });
}

}  // namespace

void norm_over_features(Number type, const TokenShape& shape, const SumNormForward& a,
                        cudaStream_t stream) {
  run_over_features(type, shape, a, stream);
}
void norm_over_features(Number type, const TokenShape& shape, const SumNormBackward& a,
                        cudaStream_t stream) {
  run_over_features(type, shape, a, stream);
}
void norm_over_tokens(Number type, const TokenShape& shape, const SumNormForward& a,
                      cudaStream_t stream) {
  run_over_tokens(type, shape, a, stream);
}
void norm_over_tokens(Number type, const TokenShape& shape, const SumNormBackward& a,
                      cudaStream_t stream) {
  run_over_tokens(type, shape, a, stream);
}

}  // namespace deq::kernels::cuda

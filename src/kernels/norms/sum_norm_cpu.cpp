#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/block_cache.h"
#include "kernels/common/vectorised.h"
#include "kernels/norms/sum_norm.h"
#include "kernels/norms/sum_norm_plan.h"

// A thread takes whole samples, or whole tokens where means are over their features: a first pass
// sums, a second one reads again what is in the cache by then, and writes.

namespace deq::kernels {
namespace {

constexpr int64_t kSums = 16;  // of neighbours, side by side in registers

/// Σ (a + b)² over n numbers.
constexpr auto sum_of_squares = vectorised(
    []<class T>(const T* __restrict a, const T* __restrict b, int64_t n) DEQ_INLINED -> double {
      T sums[kSums] = {};
      const int64_t whole = n / kSums * kSums;
      for (int64_t i = 0; i < whole; i += kSums) {
        for (int64_t k = 0; k < kSums; ++k)
          sums[k] += (a[i + k] + b[i + k]) * (a[i + k] + b[i + k]);
      }
      for (int64_t i = whole; i < n; ++i) sums[i - whole] += (a[i] + b[i]) * (a[i] + b[i]);
      double sum = 0;
      for (const T part : sums) sum += part;
      return sum;
    });

/// Σ a b over n numbers.
constexpr auto dot_of = vectorised(
    []<class T>(const T* __restrict a, const T* __restrict b, int64_t n) DEQ_INLINED -> double {
      T sums[kSums] = {};
      const int64_t whole = n / kSums * kSums;
      for (int64_t i = 0; i < whole; i += kSums) {
        for (int64_t k = 0; k < kSums; ++k) sums[k] += a[i + k] * b[i + k];
      }
      for (int64_t i = whole; i < n; ++i) sums[i - whole] += a[i] * b[i];
      double sum = 0;
      for (const T part : sums) sum += part;
      return sum;
    });

/// sums += (a + b)², n of them.
constexpr auto add_squares = vectorised([]<class T>(const T* __restrict a, const T* __restrict b,
                                                    T* __restrict sums, int64_t n) DEQ_INLINED {
  for (int64_t i = 0; i < n; ++i) sums[i] += (a[i] + b[i]) * (a[i] + b[i]);
});

/// sums += a b, n of them.
constexpr auto add_dots = vectorised([]<class T>(const T* __restrict a, const T* __restrict b,
                                                 T* __restrict sums, int64_t n) DEQ_INLINED {
  for (int64_t i = 0; i < n; ++i) sums[i] += a[i] * b[i];
});

/// y = r (a + b), with one r for all, or n of them.
constexpr auto scale_sum =
    vectorised([]<class T>(const T* __restrict a, const T* __restrict b, const T* __restrict r,
                           bool one, T* __restrict y, int64_t n) DEQ_INLINED {
      if (one) {
        const T scale = *r;
        for (int64_t i = 0; i < n; ++i) y[i] = scale * (a[i] + b[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) y[i] = r[i] * (a[i] + b[i]);
      }
    });

/// out = r (g − y mean), with one r and mean for all, or n of them.
constexpr auto pull_norm = vectorised(
    []<class T>(const T* __restrict g, const T* __restrict y, const T* __restrict r,
                const T* __restrict mean, bool one, T* __restrict out, int64_t n) DEQ_INLINED {
      if (one) {
        const T scale = *r, along = *mean;
        for (int64_t i = 0; i < n; ++i) out[i] = scale * (g[i] - y[i] * along);
      } else {
        for (int64_t i = 0; i < n; ++i) out[i] = r[i] * (g[i] - y[i] * mean[i]);
      }
    });

/// Tokens whose features are summed, that are worth a thread.
int64_t grain_of(int64_t features) {
  constexpr int64_t kNumbers = 16'384;
  return std::max<int64_t>(kNumbers / std::max<int64_t>(features, 1), 1);
}

struct NormShape {
  int64_t samples, tokens, features;

  explicit NormShape(const at::Tensor& x)
      : samples(x.size(0)), tokens(x.size(1)), features(x.size(2)) {}
};

std::vector<int64_t> statistics_shape(const NormShape& shape, bool over_tokens) {
  if (over_tokens) return {shape.samples, 1, shape.features};
  return {shape.samples, shape.tokens, 1};
}

template <class T>
T reciprocal_norm(double sum, int64_t n) {
  return static_cast<T>(1 / std::sqrt(sum / static_cast<double>(n) + kSumNormEps));
}

template <class T>
void norm_features(const NormShape& shape, const T* a, const T* b, T* y, T* r) {
  const auto n = shape.features;
  at::parallel_for(0, shape.samples * shape.tokens, grain_of(n), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t at = row * n;
      r[row] = reciprocal_norm<T>(sum_of_squares(a + at, b + at, n), n);
      scale_sum(a + at, b + at, r + row, true, y + at, n);
    }
  });
}

template <class T>
void norm_tokens(const NormShape& shape, const T* a, const T* b, T* y, T* r) {
  const auto n = shape.features;
  at::parallel_for(0, shape.samples, 1, [&](int64_t first, int64_t last) {
    std::vector<T> sums(static_cast<size_t>(n));
    for (int64_t sample = first; sample < last; ++sample) {
      std::fill(sums.begin(), sums.end(), T{0});
      const int64_t begin = sample * shape.tokens * n, end = begin + shape.tokens * n;
      for (int64_t at = begin; at < end; at += n) add_squares(a + at, b + at, sums.data(), n);
      T* const own = r + sample * n;
      for (int64_t i = 0; i < n; ++i) {
        own[i] = reciprocal_norm<T>(sums[static_cast<size_t>(i)], shape.tokens);
      }
      for (int64_t at = begin; at < end; at += n) scale_sum(a + at, b + at, own, false, y + at, n);
    }
  });
}

template <class T>
void pull_features(const NormShape& shape, const T* g, const T* y, const T* r, T* out) {
  const auto n = shape.features;
  at::parallel_for(0, shape.samples * shape.tokens, grain_of(n), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t at = row * n;
      const T mean = static_cast<T>(dot_of(g + at, y + at, n) / static_cast<double>(n));
      pull_norm(g + at, y + at, r + row, &mean, true, out + at, n);
    }
  });
}

template <class T>
void pull_tokens(const NormShape& shape, const T* g, const T* y, const T* r, T* out) {
  const auto n = shape.features;
  at::parallel_for(0, shape.samples, 1, [&](int64_t first, int64_t last) {
    std::vector<T> means(static_cast<size_t>(n));
    for (int64_t sample = first; sample < last; ++sample) {
      std::fill(means.begin(), means.end(), T{0});
      const int64_t begin = sample * shape.tokens * n, end = begin + shape.tokens * n;
      for (int64_t at = begin; at < end; at += n) add_dots(g + at, y + at, means.data(), n);
      for (T& mean : means) mean /= static_cast<T>(shape.tokens);
      for (int64_t at = begin; at < end; at += n) {
        pull_norm(g + at, y + at, r + sample * n, means.data(), false, out + at, n);
      }
    }
  });
}

}  // namespace

namespace cpu {

SumNormOutputs sum_norm(const at::Tensor& a, const at::Tensor& b, bool over_tokens) {
  const NormShape shape(a);
  const auto y = empty_reused(a.sizes(), a.options());
  const auto r = at::empty(statistics_shape(shape, over_tokens), a.options());
  AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "sum_norm", [&] {
    const auto norm = over_tokens ? norm_tokens<scalar_t> : norm_features<scalar_t>;
    norm(shape, a.const_data_ptr<scalar_t>(), b.const_data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
         r.data_ptr<scalar_t>());
  });
  return {y, r};
}

at::Tensor sum_norm_backward(const at::Tensor& g, const at::Tensor& y, const at::Tensor& r,
                             bool over_tokens) {
  auto out = empty_reused(y.sizes(), y.options());
  AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "sum_norm_backward", [&] {
    const auto pull = over_tokens ? pull_tokens<scalar_t> : pull_features<scalar_t>;
    pull(NormShape(y), g.const_data_ptr<scalar_t>(), y.const_data_ptr<scalar_t>(),
         r.const_data_ptr<scalar_t>(), out.data_ptr<scalar_t>());
  });
  return out;
}

}  // namespace cpu

}  // namespace deq::kernels

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/vectorised.h"
#include "kernels/images/images.h"
#include "kernels/norms/group_norm.h"
#include "kernels/norms/group_norm_rows.h"

// The sums of the moments are about the first number of a group, so that the variance of numbers
// far from zero does not cancel.

namespace deq::kernels {
namespace {

using cpu::numbers;
using cpu::Rows;
using cpu::sample;

/// With d = x − pivot: sums[i] += d, squares[i] += d² over `count` rows of n.
constexpr auto add_moments = vectorised([]<class T>(const T* __restrict x, int64_t count, int64_t n,
                                                    const T* __restrict pivot, T* __restrict sums,
                                                    T* __restrict squares) DEQ_INLINED {
  for (int64_t k = 0; k < count; ++k, x += n) {
    for (int64_t i = 0; i < n; ++i) {
      const T away = x[i] - pivot[i];
      sums[i] += away;
      squares[i] += away * away;
    }
  }
});

/// y = scale ⊙ x + shift (+ addend), not below `least`.
constexpr auto normalise =
    vectorised([]<class T>(const T* __restrict x, const T* __restrict addend, int64_t count,
                           int64_t n, const T* __restrict scale, const T* __restrict shift, T least,
                           T* __restrict y) DEQ_INLINED {
      for (int64_t k = 0; k < count; ++k, x += n, y += n) {
        if (addend != nullptr) {
          for (int64_t i = 0; i < n; ++i) {
            const T value = scale[i] * x[i] + shift[i] + addend[i];
            y[i] = value < least ? least : value;
          }
          addend += n;
        } else {
          for (int64_t i = 0; i < n; ++i) {
            const T value = scale[i] * x[i] + shift[i];
            y[i] = value < least ? least : value;
          }
        }
      }
    });

/// pulled = g where y > 0, over n numbers.
constexpr auto mask = vectorised([]<class T>(const T* __restrict g, const T* __restrict y,
                                             int64_t n, T* __restrict pulled) DEQ_INLINED {
  for (int64_t i = 0; i < n; ++i) pulled[i] = y[i] > 0 ? g[i] : 0;
});

/// sums[i] += g, products[i] += g·(x − mean) over `count` rows of n.
constexpr auto add_products = vectorised(
    []<class T>(const T* __restrict g, const T* __restrict x, int64_t count, int64_t n,
                const T* __restrict mean, T* __restrict sums, T* __restrict products) DEQ_INLINED {
      for (int64_t k = 0; k < count; ++k, g += n, x += n) {
        for (int64_t i = 0; i < n; ++i) {
          sums[i] += g[i];
          products[i] += g[i] * (x[i] - mean[i]);
        }
      }
    });

/// out = a ⊙ pulled + b ⊙ (x − mean) + c; out may be pulled.
constexpr auto combine =
    vectorised([]<class T>(const T* pulled, const T* __restrict x, int64_t count, int64_t n,
                           const T* __restrict mean, const T* __restrict a, const T* __restrict b,
                           const T* __restrict c, T* out) DEQ_INLINED {
      for (int64_t k = 0; k < count; ++k, pulled += n, x += n, out += n) {
        for (int64_t i = 0; i < n; ++i) {
          out[i] = a[i] * pulled[i] + b[i] * (x[i] - mean[i]) + c[i];
        }
      }
    });

template <class T>
void forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
             const at::Tensor& addend, const GroupNormOptions& options, const at::Tensor& y,
             const at::Tensor& means, const at::Tensor& rstds) {
  const Rows rows(x.size(1), x.size(2) * x.size(3));
  const auto *const w = numbers<T>(weight), *const offset = numbers<T>(bias);
  auto* const mean = means.data_ptr<T>();
  auto* const rstd = rstds.data_ptr<T>();
  const int64_t per_group = rows.channels / options.groups;
  const auto n = static_cast<double>(per_group * rows.pixels());
  const T least = options.relu ? T{0} : -std::numeric_limits<T>::infinity();
  at::parallel_for(0, x.size(0), 1, [&](int64_t first, int64_t last) {
    auto work = rows.scratch<T>(2), pivot = rows.scratch<T>(1);
    std::vector<double> totals(static_cast<size_t>(2 * rows.channels));
    for (int64_t b = first; b < last; ++b) {
      const T* const from = sample<T>(x, b);
      const T* const added = sample<T>(addend, b);
      for (int64_t c = 0; c < rows.channels; ++c) {
        pivot[static_cast<size_t>(c)] = from[c / per_group * per_group];
      }
      cpu::repeat(rows, pivot.data());
      cpu::sum_in_strips(rows, 2, work.data(), totals.data(),
                         [&](int64_t row, int64_t count, T* sums) {
                           add_moments(from + row * rows.width, count, rows.width, pivot.data(),
                                       sums, sums + rows.width);
                         });
      T* const scale = work.data();
      T* const shift = scale + rows.width;
      for (int64_t group = 0; group < options.groups; ++group) {
        double sum = 0, square = 0;
        for (int64_t c = group * per_group; c < (group + 1) * per_group; ++c) {
          sum += totals[static_cast<size_t>(c)];
          square += totals[static_cast<size_t>(rows.channels + c)];
        }
        const double away = sum / n, variance = std::max(square / n - away * away, 0.0);
        const double centre = away + pivot[static_cast<size_t>(group * per_group)];
        const double inverse = 1 / std::sqrt(variance + options.eps);
        mean[b * options.groups + group] = static_cast<T>(centre);
        rstd[b * options.groups + group] = static_cast<T>(inverse);
        for (int64_t c = group * per_group; c < (group + 1) * per_group; ++c) {
          const double factor = inverse * (w != nullptr ? w[c] : T{1});
          scale[c] = static_cast<T>(factor);
          shift[c] = static_cast<T>((offset != nullptr ? offset[c] : T{0}) - centre * factor);
        }
      }
      cpu::repeat(rows, scale);
      cpu::repeat(rows, shift);
      normalise(from, added, rows.rows, rows.width, scale, shift, least,
                y.data_ptr<T>() + b * y.stride(0));
    }
  });
}

/// With s = Σ a and p = Σ a (x − mean) over a group, a = ∂y ⊙ weight, and n numbers in it:
///   ∂x = rstd·a − p rstd³/n·(x − mean) − rstd·s/n.
template <class T>
void backward(const at::Tensor& g, const at::Tensor& x, const at::Tensor& y,
              const at::Tensor& means, const at::Tensor& rstds, const at::Tensor& weight,
              const at::Tensor& pulled, const at::Tensor& for_x, const at::Tensor& sums) {
  const Rows rows(x.size(1), x.size(2) * x.size(3));
  const auto* const w = numbers<T>(weight);
  const auto *const mean = means.const_data_ptr<T>(), *const rstd = rstds.const_data_ptr<T>();
  const int64_t groups = means.size(1), per_group = rows.channels / groups;
  const auto n = static_cast<double>(per_group * rows.pixels());
  at::parallel_for(0, x.size(0), 1, [&](int64_t first, int64_t last) {
    auto work = rows.scratch<T>(3), centres = rows.scratch<T>(1);
    for (int64_t b = first; b < last; ++b) {
      cpu::fill_from_groups(rows, mean + b * groups, per_group, centres.data());
      const T *const from = sample<T>(x, b), *const image = sample<T>(y, b);
      const T* const pull = image != nullptr ? sample<T>(pulled, b) : sample<T>(g, b);
      double* const totals = sums.data_ptr<double>() + b * 2 * rows.channels;
      cpu::sum_in_strips(rows, 2, work.data(), totals, [&](int64_t row, int64_t count, T* own) {
        const int64_t at = row * rows.width;
        if (image != nullptr) {
          mask(sample<T>(g, b) + at, image + at, count * rows.width,
               pulled.data_ptr<T>() + b * pulled.stride(0) + at);
        }
        add_products(pull + at, from + at, count, rows.width, centres.data(), own,
                     own + rows.width);
      });
      T *const c1 = work.data(), *const c2 = c1 + rows.width, *const c3 = c2 + rows.width;
      for (int64_t group = 0; group < groups; ++group) {
        double s = 0, p = 0;
        for (int64_t c = group * per_group; c < (group + 1) * per_group; ++c) {
          const double factor = w != nullptr ? w[c] : T{1};
          s += factor * totals[c];
          p += factor * totals[rows.channels + c];
        }
        const double inverse = rstd[b * groups + group];
        const double q = p * inverse * inverse * inverse / n;
        for (int64_t c = group * per_group; c < (group + 1) * per_group; ++c) {
          c1[c] = static_cast<T>(inverse * (w != nullptr ? w[c] : T{1}));
          c2[c] = static_cast<T>(-q);
          c3[c] = static_cast<T>(-inverse * s / n);
        }
      }
      for (T* row : {c1, c2, c3}) cpu::repeat(rows, row);
      combine(pull, from, rows.rows, rows.width, centres.data(), c1, c2, c3,
              for_x.data_ptr<T>() + b * for_x.stride(0));
    }
  });
}

}  // namespace

namespace cpu {

GroupNormOutputs group_norm(const at::Tensor& x, const OptionalTensor& weight,
                            const OptionalTensor& bias, const OptionalTensor& addend,
                            int64_t groups, double eps, bool relu,
                            std::optional<at::ScalarType> /*type: always that of x*/,
                            const OptionalTensor& target) {
  const bool fits = target && target->scalar_type() == x.scalar_type() &&
                    dense_pixels(*target).is_same(*target);
  auto y = fits ? *target : empty_images(x.sizes(), x.options());
  auto mean = at::empty({x.size(0), groups}, x.options()), rstd = at::empty_like(mean);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "group_norm", [&] {
    forward<scalar_t>(x, weight.value_or(at::Tensor()), bias.value_or(at::Tensor()),
                      addend.value_or(at::Tensor()), {.groups = groups, .eps = eps, .relu = relu},
                      y, mean, rstd);
  });
  if (target && !fits) y = target->copy_(y);
  return {y, mean, rstd};
}

GroupNormGradients group_norm_backward(const at::Tensor& g, const at::Tensor& x,
                                       const OptionalTensor& y, const at::Tensor& mean,
                                       const at::Tensor& rstd, const OptionalTensor& weight,
                                       bool affine, bool addend) {
  const auto for_x = empty_images(x.sizes(), x.options());
  // What passes the ReLU is kept where it is wanted; otherwise ∂x is made in its target.
  at::Tensor for_addend, for_weight, for_bias;
  if (addend && y) for_addend = empty_images(x.sizes(), x.options());
  const auto& pulled = for_addend.defined() ? for_addend : for_x;
  const auto sums = at::empty({x.size(0), 2, x.size(1)}, x.options().dtype(at::kDouble));
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "group_norm_backward", [&] {
    backward<scalar_t>(g, x, y.value_or(at::Tensor()), mean, rstd, weight.value_or(at::Tensor()),
                       pulled, for_x, sums);
  });
  if (affine) {
    const auto own_rstd = rstd.repeat_interleave(x.size(1) / mean.size(1), 1);
    for_bias = sums.select(1, 0).sum(0).to(x.scalar_type());
    for_weight = (sums.select(1, 1) * own_rstd).sum(0).to(x.scalar_type());
  }
  return {for_x, for_weight, for_bias, for_addend};
}

}  // namespace cpu

}  // namespace deq::kernels

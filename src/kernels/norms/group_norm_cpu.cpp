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
#include "kernels/norms/group_norm_samples.h"

// The sums of the moments are about the first number of a group, so that the variance of numbers
// far from zero does not cancel.

namespace deq::kernels {
namespace {

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

/// y = scale ⊙ x + shift (+ addend), not below `least`; y may be x.
constexpr auto normalise = vectorised(
    []<class T>(const T* x, const T* __restrict addend, int64_t count, int64_t n,
                const T* __restrict scale, const T* __restrict shift, T least, T* y) DEQ_INLINED {
      for (int64_t k = 0; k < count; ++k, x += n, y += n) {
        if (addend != nullptr) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) {
            const T value = scale[i] * x[i] + shift[i] + addend[i];
            y[i] = value < least ? least : value;
          }
          addend += n;
        } else {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) {
            const T value = scale[i] * x[i] + shift[i];
            y[i] = value < least ? least : value;
          }
        }
      }
    });

/// pulled = g where y > 0, over n numbers; pulled may be g.
constexpr auto mask =
    vectorised([]<class T>(const T* g, const T* __restrict y, int64_t n, T* pulled) DEQ_INLINED {
#pragma GCC ivdep
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
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) {
          out[i] = a[i] * pulled[i] + b[i] * (x[i] - mean[i]) + c[i];
        }
      }
    });

}  // namespace

namespace cpu {

template <class T>
GroupNormSamples<T>::GroupNormSamples(int64_t channels, int64_t pixels, int64_t groups,
                                      const at::Tensor& weight)
    : rows_(channels, pixels),
      groups_(groups),
      per_group_(rows_.channels / groups),
      weight_(numbers<T>(weight)),
      work_(rows_.scratch<T>(3)),
      of_channels_(rows_.scratch<T>(1)),
      totals_(static_cast<size_t>(2 * rows_.channels)) {}

template <class T>
void GroupNormSamples<T>::forward(const T* x, const T* addend, const T* bias, double eps, bool relu,
                                  T* y, T* mean, T* rstd) {
  const auto n = static_cast<double>(per_group_ * rows_.pixels());
  const T least = relu ? T{0} : -std::numeric_limits<T>::infinity();
  T *const pivot = of_channels_.data(), *const work = work_.data();
  double* const totals = totals_.data();
  for (int64_t c = 0; c < rows_.channels; ++c) pivot[c] = x[c / per_group_ * per_group_];
  repeat(rows_, pivot);
  sum_in_strips(rows_, 2, work, totals, [&](int64_t row, int64_t count, T* sums) {
    add_moments(x + row * rows_.width, count, rows_.width, pivot, sums, sums + rows_.width);
  });
  T *const scale = work, *const shift = scale + rows_.width;
  for (int64_t group = 0; group < groups_; ++group) {
    const int64_t begin = group * per_group_, end = begin + per_group_;
    double sum = 0, square = 0;
    for (int64_t c = begin; c < end; ++c) {
      sum += totals[c];
      square += totals[rows_.channels + c];
    }
    const double away = sum / n, variance = std::max(square / n - away * away, 0.0);
    const double centre = away + pivot[begin];
    const double inverse = 1 / std::sqrt(variance + eps);
    mean[group] = static_cast<T>(centre);
    rstd[group] = static_cast<T>(inverse);
    for (int64_t c = begin; c < end; ++c) {
      const double factor = inverse * (weight_ != nullptr ? weight_[c] : T{1});
      scale[c] = static_cast<T>(factor);
      shift[c] = static_cast<T>((bias != nullptr ? bias[c] : T{0}) - centre * factor);
    }
  }
  repeat(rows_, scale);
  repeat(rows_, shift);
  normalise(x, addend, rows_.rows, rows_.width, scale, shift, least, y);
}

/// With s = Σ a and p = Σ a (x − mean) over a group, a = ∂y ⊙ weight, and n numbers in it:
///   ∂x = rstd·a − p rstd³/n·(x − mean) − rstd·s/n.
template <class T>
void GroupNormSamples<T>::backward(const T* g, const T* x, const T* y, const T* mean, const T* rstd,
                                   T* pulled, T* for_x, double* totals) {
  const auto n = static_cast<double>(per_group_ * rows_.pixels());
  T* const centres = of_channels_.data();
  fill_from_groups(rows_, mean, per_group_, centres);
  const T* const pull = y != nullptr ? pulled : g;
  sum_in_strips(rows_, 2, work_.data(), totals, [&](int64_t row, int64_t count, T* own) {
    const int64_t at = row * rows_.width;
    if (y != nullptr) mask(g + at, y + at, count * rows_.width, pulled + at);
    add_products(pull + at, x + at, count, rows_.width, centres, own, own + rows_.width);
  });
  T *const c1 = work_.data(), *const c2 = c1 + rows_.width, *const c3 = c2 + rows_.width;
  for (int64_t group = 0; group < groups_; ++group) {
    const int64_t begin = group * per_group_, end = begin + per_group_;
    double s = 0, p = 0;
    for (int64_t c = begin; c < end; ++c) {
      const double factor = weight_ != nullptr ? weight_[c] : T{1};
      s += factor * totals[c];
      p += factor * totals[rows_.channels + c];
    }
    const double inverse = rstd[group];
    const double q = p * inverse * inverse * inverse / n;
    for (int64_t c = begin; c < end; ++c) {
      c1[c] = static_cast<T>(inverse * (weight_ != nullptr ? weight_[c] : T{1}));
      c2[c] = static_cast<T>(-q);
      c3[c] = static_cast<T>(-inverse * s / n);
    }
  }
  for (T* row : {c1, c2, c3}) repeat(rows_, row);
  combine(pull, x, rows_.rows, rows_.width, centres, c1, c2, c3, for_x);
}

template class GroupNormSamples<float>;
template class GroupNormSamples<double>;

GroupNormOutputs group_norm(const at::Tensor& x, const OptionalTensor& weight,
                            const OptionalTensor& bias, const OptionalTensor& addend,
                            int64_t groups, double eps, bool relu,
                            std::optional<at::ScalarType> /*type: always that of x*/,
                            const OptionalTensor& target) {
  const bool fits =
      target && target->scalar_type() == x.scalar_type() && dense_pixels(*target).is_same(*target);
  auto y = fits ? *target : empty_images(x.sizes(), x.options());
  auto mean = at::empty({x.size(0), groups}, x.options()), rstd = at::empty_like(mean);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "group_norm", [&] {
    at::parallel_for(0, x.size(0), 1, [&](int64_t first, int64_t last) {
      GroupNormSamples<scalar_t> samples(x.size(1), x.size(2) * x.size(3), groups,
                                         weight.value_or(at::Tensor()));
      for (int64_t b = first; b < last; ++b) {
        samples.forward(sample<scalar_t>(x, b), sample<scalar_t>(addend.value_or(at::Tensor()), b),
                        numbers<scalar_t>(bias.value_or(at::Tensor())), eps, relu,
                        y.data_ptr<scalar_t>() + b * y.stride(0),
                        mean.data_ptr<scalar_t>() + b * groups,
                        rstd.data_ptr<scalar_t>() + b * groups);
      }
    });
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
    const auto groups = mean.size(1);
    at::parallel_for(0, x.size(0), 1, [&](int64_t first, int64_t last) {
      GroupNormSamples<scalar_t> samples(x.size(1), x.size(2) * x.size(3), groups,
                                         weight.value_or(at::Tensor()));
      for (int64_t b = first; b < last; ++b) {
        samples.backward(sample<scalar_t>(g, b), sample<scalar_t>(x, b),
                         sample<scalar_t>(y.value_or(at::Tensor()), b),
                         mean.const_data_ptr<scalar_t>() + b * groups,
                         rstd.const_data_ptr<scalar_t>() + b * groups,
                         pulled.data_ptr<scalar_t>() + b * pulled.stride(0),
                         for_x.data_ptr<scalar_t>() + b * for_x.stride(0),
                         sums.data_ptr<double>() + b * 2 * x.size(1));
      }
    });
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

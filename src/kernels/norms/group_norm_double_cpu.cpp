#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <array>

#include "kernels/common/vectorised.h"
#include "kernels/images/images.h"
#include "kernels/norms/group_norm.h"
#include "kernels/norms/group_norm_rows.h"

// The backward of group norm's backward, in two passes like the others. With d = x − mean all that
// is written is a sum of v, d and the ∂y that passes the ReLU, with factors of each channel.

namespace deq::kernels {
namespace {

/// pulled = g where y > 0, over n numbers.
constexpr auto mask_into = vectorised([]<class T>(const T* __restrict g, const T* __restrict y,
                                                  int64_t n, T* __restrict pulled) DEQ_INLINED {
  for (int64_t i = 0; i < n; ++i) pulled[i] = y[i] > 0 ? g[i] : 0;
});

/// Over `count` rows of n, to five rows of sums: v, v d, g, g d, g v.
constexpr auto add_second =
    vectorised([]<class T>(const T* __restrict v, const T* __restrict g, const T* __restrict x,
                           const T* __restrict mean, int64_t count, int64_t n, T* __restrict sums)
                   DEQ_INLINED {
                     for (int64_t k = 0; k < count; ++k, v += n, g += n, x += n) {
                       for (int64_t i = 0; i < n; ++i) {
                         const T d = x[i] - mean[i];
                         sums[i] += v[i];
                         sums[n + i] += v[i] * d;
                         sums[2 * n + i] += g[i];
                         sums[3 * n + i] += g[i] * d;
                         sums[4 * n + i] += g[i] * v[i];
                       }
                     }
                   });

/// for_x = b0 v + b1 d + b2 g + b3, for_g = a0 v + a1 d + a2; for_g may be g. The rows of b and
/// then of a follow each other.
constexpr auto write_second =
    vectorised([]<class T>(const T* __restrict v, const T* g, const T* __restrict x,
                           const T* __restrict mean, const T* __restrict factors, int64_t count,
                           int64_t n, T* __restrict for_x, T* for_g) DEQ_INLINED {
      const T *const b = factors, *const a = factors + 4 * n;
      for (int64_t k = 0; k < count; ++k, v += n, g += n, x += n, for_x += n, for_g += n) {
        for (int64_t i = 0; i < n; ++i) {
          const T d = x[i] - mean[i];
          for_x[i] = b[i] * v[i] + b[n + i] * d + b[2 * n + i] * g[i] + b[3 * n + i];
          for_g[i] = a[i] * v[i] + a[n + i] * d + a[2 * n + i];
        }
      }
    });

/// out = out (+ added), where y > 0.
constexpr auto add_and_mask_pixels =
    vectorised([]<class T>(const T* __restrict added, const T* __restrict y, int64_t n,
                           T* __restrict out) DEQ_INLINED {
      if (added != nullptr) {
        for (int64_t i = 0; i < n; ++i) out[i] = y[i] > 0 ? out[i] + added[i] : 0;
      } else {
        for (int64_t i = 0; i < n; ++i) out[i] = y[i] > 0 ? out[i] : 0;
      }
    });

using reference::GroupNormPoint;

/// The notation is that of reference::group_norm_double_backward; `totals` are the sums of
/// add_second for every channel of a sample. Writes the seven rows of factors, and what the sample
/// adds to the gradient for weight.
template <class T>
void find_factors(const cpu::Rows& rows, int64_t groups, const double* totals, const T* weight,
                  const T* rstds, T* factors, double* for_weight) {
  const int64_t channels = rows.channels, per_group = channels / groups;
  const auto n = static_cast<double>(per_group * rows.pixels());
  for (int64_t group = 0; group < groups; ++group) {
    const double r = rstds[group];
    double of_v = 0, of_vx = 0, of_a = 0, of_ax = 0, of_va = 0;  // x stands for x̂
    for (int64_t c = group * per_group; c < (group + 1) * per_group; ++c) {
      const double w = weight != nullptr ? weight[c] : T{1};
      of_v += totals[c] / n;
      of_vx += r * totals[channels + c] / n;
      of_a += w * totals[2 * channels + c] / n;
      of_ax += w * r * totals[3 * channels + c] / n;
      of_va += w * totals[4 * channels + c] / n;
    }
    const double together = of_va - of_v * of_a - of_vx * of_ax;
    for (int64_t c = group * per_group; c < (group + 1) * per_group; ++c) {
      const double w = weight != nullptr ? weight[c] : T{1};
      const std::array<double, 7> of_channel{-r * r * of_ax,
                                             -r * r * r * (together - 2 * of_vx * of_ax),
                                             -r * r * of_vx * w,
                                             r * r * (of_ax * of_v + of_vx * of_a),
                                             w * r,
                                             -w * r * r * of_vx,
                                             -w * r * of_v};
      for (size_t k = 0; k < of_channel.size(); ++k) {
        factors[static_cast<int64_t>(k) * rows.width + c] = static_cast<T>(of_channel[k]);
      }
      for_weight[c] = r * (totals[4 * channels + c] - of_v * totals[2 * channels + c] -
                           of_vx * r * totals[3 * channels + c]);
    }
  }
  for (int64_t k = 0; k < 7; ++k) cpu::repeat(rows, factors + k * rows.width);
}

template <class T>
void double_backward(const at::Tensor& v, const at::Tensor& v_addend, const GroupNormPoint& at,
                     const at::Tensor& for_g, const at::Tensor& for_x,
                     const at::Tensor& for_weight) {
  const cpu::Rows rows(at.x.size(1), at.x.size(2) * at.x.size(3));
  const int64_t groups = at.mean.size(1), size = rows.width * rows.rows;
  at::parallel_for(0, at.x.size(0), 1, [&](int64_t first, int64_t last) {
    auto means = rows.scratch<T>(1), sums = rows.scratch<T>(5), factors = rows.scratch<T>(7);
    std::vector<double> totals(static_cast<size_t>(5 * rows.channels));
    for (int64_t b = first; b < last; ++b) {
      const T *const x = cpu::sample<T>(at.x, b), *const cotangent = cpu::sample<T>(v, b);
      const T *const g = cpu::sample<T>(at.g, b), *const image = cpu::sample<T>(at.y, b);
      T* const out = for_g.data_ptr<T>() + b * for_g.stride(0);
      const T* const pulled = image != nullptr ? out : g;  // masked in place of what comes
      cpu::fill_from_groups(rows, at.mean.const_data_ptr<T>() + b * groups, rows.channels / groups,
                            means.data());
      cpu::sum_in_strips(rows, 5, sums.data(), totals.data(),
                         [&](int64_t row, int64_t count, T* own) {
                           const int64_t from = row * rows.width;
                           if (image != nullptr) {
                             mask_into(g + from, image + from, count * rows.width, out + from);
                           }
                           add_second(cotangent + from, pulled + from, x + from, means.data(),
                                      count, rows.width, own);
                         });
      find_factors(rows, groups, totals.data(), cpu::numbers<T>(at.weight),
                   at.rstd.const_data_ptr<T>() + b * groups, factors.data(),
                   for_weight.data_ptr<double>() + b * rows.channels);
      write_second(cotangent, pulled, x, means.data(), factors.data(), rows.rows, rows.width,
                   for_x.data_ptr<T>() + b * for_x.stride(0), out);
      if (image != nullptr) add_and_mask_pixels(cpu::sample<T>(v_addend, b), image, size, out);
    }
  });
}

}  // namespace

namespace cpu {

GroupNormSecondGradients group_norm_double_backward(const at::Tensor& v,
                                                    const OptionalTensor& v_addend,
                                                    const at::Tensor& g, const at::Tensor& x,
                                                    const OptionalTensor& y, const at::Tensor& mean,
                                                    const at::Tensor& rstd,
                                                    const OptionalTensor& weight, bool affine) {
  const GroupNormPoint at{.g = g,
                          .x = x,
                          .y = y.value_or(at::Tensor()),
                          .mean = mean,
                          .rstd = rstd,
                          .weight = weight.value_or(at::Tensor())};
  const auto for_g = empty_images(x.sizes(), x.options());
  const auto for_x = empty_images(x.sizes(), x.options());
  const auto for_weight = at::empty({x.size(0), x.size(1)}, x.options().dtype(at::kDouble));
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "group_norm_double_backward", [&] {
    double_backward<scalar_t>(v, v_addend.value_or(at::Tensor()), at, for_g, for_x, for_weight);
  });
  return {for_g, for_x, affine ? for_weight.sum(0).to(x.scalar_type()) : at::Tensor()};
}

}  // namespace cpu

}  // namespace deq::kernels

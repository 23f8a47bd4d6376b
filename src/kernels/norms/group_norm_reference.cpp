#include <torch/types.h>

#include <vector>

#include "kernels/norms/group_norm.h"

// The plain-torch side of group_norm.h: what serves every device, the oracle of the tests, and the
// formulas that can be differentiated once more.

namespace deq::kernels::reference {
namespace {

at::Tensor wide(const at::Tensor& tensor) {
  const bool narrow = tensor.defined() &&
                      (tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf);
  return narrow ? tensor.to(at::kFloat) : tensor;
}

at::Tensor pulled_through(const at::Tensor& g, const at::Tensor& y) {
  return y.defined() ? g * y.gt(0) : g;
}

at::Tensor scaled(const at::Tensor& images, const at::Tensor& weight) {
  return weight.defined() ? images * weight.view({-1, 1, 1}) : images;
}

/// [B, groups] as a number for every entry of [B, groups, channels, H, W].
at::Tensor of_groups(const at::Tensor& numbers) {
  return numbers.view({numbers.size(0), numbers.size(1), 1, 1, 1});
}

/// Means over the entries of a group, and what they are taken out of.
struct Groups {
  std::vector<int64_t> split;

  at::Tensor of(const at::Tensor& images) const { return images.unflatten(1, split); }
  static at::Tensor mean(const at::Tensor& grouped) {
    return grouped.mean({2, 3, 4}, /*keepdim=*/true);
  }
  static at::Tensor images(const at::Tensor& grouped) { return grouped.flatten(1, 2); }
};

Groups groups_of(const at::Tensor& x, int64_t groups) {
  return {.split = {groups, x.size(1) / groups}};
}

}  // namespace

at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& addend, const GroupNormOptions& options) {
  auto y = at::group_norm(x, options.groups, weight, bias, options.eps);
  // In place: the norm's backward reads only its input.
  if (addend.defined()) y.add_(addend);
  if (options.relu) y.relu_();
  return options.type ? y.to(*options.type) : y;
}

std::tuple<at::Tensor, at::Tensor> group_statistics(const at::Tensor& x, int64_t groups,
                                                    double eps) {
  const auto grouped = groups_of(x, groups).of(wide(x));
  const auto [variance, mean] = at::var_mean(grouped, {2, 3, 4}, /*unbiased=*/false);
  return {mean, (variance + eps).rsqrt()};
}

GroupNormGradients group_norm_backward(const at::Tensor& g, const at::Tensor& x,
                                       const at::Tensor& y, const at::Tensor& weight,
                                       int64_t groups, double eps) {
  const auto parts = groups_of(x, groups);
  const auto [mean, rstd] = group_statistics(x, groups, eps);
  const auto pulled = pulled_through(wide(g), y);
  const auto normal = (parts.of(wide(x)) - of_groups(mean)) * of_groups(rstd);
  const auto a = parts.of(scaled(pulled, weight));
  const auto along = Groups::mean(a * normal);
  return {Groups::images(of_groups(rstd) * (a - Groups::mean(a) - normal * along)),
          (pulled * Groups::images(normal)).sum({0, 2, 3}), pulled.sum({0, 2, 3}), pulled};
}

GroupNormSecondGradients group_norm_double_backward(const at::Tensor& v, const at::Tensor& v_addend,
                                                    const GroupNormPoint& at) {
  const auto parts = groups_of(at.x, at.mean.size(1));
  const auto mean = of_groups(wide(at.mean)), rstd = of_groups(wide(at.rstd));
  const auto pulled = pulled_through(wide(at.g), at.y);
  const auto normal = (parts.of(wide(at.x)) - mean) * rstd;
  const auto cotangent = parts.of(wide(v)), a = parts.of(scaled(pulled, at.weight));

  const auto of_v = Groups::mean(cotangent), of_v_normal = Groups::mean(cotangent * normal);
  const auto of_a = Groups::mean(a), of_a_normal = Groups::mean(a * normal);
  const auto together = Groups::mean(cotangent * a) - of_v * of_a - of_v_normal * of_a_normal;
  const auto projected_v = cotangent - of_v - normal * of_v_normal;
  const auto projected_a = a - of_a - normal * of_a_normal;
  const auto for_x =
      -rstd.square() * (normal * together + of_a_normal * projected_v + of_v_normal * projected_a);
  const auto through = Groups::images(rstd * projected_v);
  auto for_g = scaled(through, at.weight);
  if (v_addend.defined()) for_g = for_g + wide(v_addend);
  return {pulled_through(for_g, at.y), Groups::images(for_x),
          at.weight.defined() ? (pulled * through).sum({0, 2, 3}) : at::Tensor()};
}

}  // namespace deq::kernels::reference

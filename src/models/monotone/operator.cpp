#include "models/monotone/operator.h"

#include "models/monotone/spectrum.h"

namespace deq::models {
namespace {

using torch::Tensor;

/// Dᵀ: what falls off the top and the left comes back at the bottom and the right.
Tensor up(const Tensor& image, const Tensor& kernel) {
  auto result = torch::conv_transpose2d(image, kernel, /*bias=*/{}, /*stride=*/2);
  for (const int64_t dim : {2, 3}) {
    const auto size = result.size(dim) - 1;
    result = torch::cat(
        {result.narrow(dim, 1, size - 1), result.narrow(dim, size, 1) + result.narrow(dim, 0, 1)},
        dim);
  }
  return result;
}

Tensor with_border(const Tensor& image) {
  return torch::constant_pad_nd(image, {0, 1, 0, 1});
}

}  // namespace

Tensor transposed_kernel(const Tensor& kernel) {
  return kernel.transpose(0, 1).flip({2, 3}).contiguous();
}

Tensor circular_conv(const Tensor& image, const Tensor& kernel, int64_t stride) {
  return torch::conv2d(torch::pad(image, {1, 1, 1, 1}, "circular"), kernel, /*bias=*/{}, stride);
}

State monotone_product(const std::vector<MonotoneTier>& tiers, double strength, const State& z) {
  State result;
  result.reserve(tiers.size());
  Tensor from_above;  // P D z of the tier before
  for (size_t i = 0; i < tiers.size(); ++i) {
    const auto& tier = tiers[i];
    auto inner = circular_conv(z[i], tier.a);
    if (from_above.defined()) inner = inner + 2 * from_above;
    auto product =
        strength * z[i] + circular_conv(inner, tier.a_transpose) - circular_conv(z[i], tier.skew);
    if (tier.down.defined()) {
      const auto below = circular_conv(z[i], tier.down, /*stride=*/2);
      product = product + up(below, tier.down);
      from_above = with_border(below);
    }
    result.push_back(product);
  }
  return result;
}

void add_inverse(std::vector<MonotoneTier>& tiers, double strength, double alpha,
                 const std::vector<int64_t>& sizes) {
  for (size_t i = 0; i < tiers.size(); ++i) {
    auto& tier = tiers[i];
    const auto a = spectrum_of_kernel(tier.a, sizes[i]);
    const auto skew = spectrum_of_kernel(tier.skew, sizes[i]);
    const auto identity = torch::eye(tier.a.size(1), a.options());
    tier.core = torch::linalg_inv((1 + alpha * strength) * identity +
                                  alpha * (torch::matmul(a.mH(), a) - skew));
    if (!tier.down.defined()) continue;
    const auto down = spectrum_of_kernel(tier.down, sizes[i]);
    const auto through = torch::matmul(torch::matmul(down, tier.core), down.mH());
    tier.coupling = torch::linalg_inv(torch::eye(tier.down.size(0), a.options()) +
                                      alpha * every_other_pixel(through, sizes[i]));
  }
}

State monotone_inverse(const std::vector<MonotoneTier>& tiers, double alpha, const State& r) {
  State result;
  result.reserve(tiers.size());
  Tensor from_above;  // P D x of the tier before
  for (size_t i = 0; i < tiers.size(); ++i) {
    const auto& tier = tiers[i];
    auto right = r[i];
    if (from_above.defined()) {
      right = right - 2 * alpha * circular_conv(from_above, tier.a_transpose);
    }
    if (tier.down.defined()) {
      const auto t =
          filter(tier.coupling, circular_conv(filter(tier.core, right), tier.down, /*stride=*/2));
      right = right - alpha * up(t, tier.down);
      from_above = with_border(t);
    }
    result.push_back(filter(tier.core, right));
  }
  return result;
}

}  // namespace deq::models

#include "deq/jacobian/frobenius.h"

#include "deq/core/error.h"

namespace deq {
namespace {

torch::Tensor draw_probe(const torch::Tensor& like, ProbeDistribution distribution,
                         const std::optional<at::Generator>& generator) {
  // A generator belongs to one device; what it draws goes where it is needed.
  const auto device = generator ? generator->device() : like.device();
  const auto options = like.options().device(device);
  const auto probe = distribution == ProbeDistribution::Gaussian
                         ? torch::randn(like.sizes(), generator, options)
                         : torch::randint(2, like.sizes(), generator, options).mul_(2).sub_(1);
  return probe.to(like.device());
}

}  // namespace

void validate(const Hutchinson& options) {
  require(options.probes >= 1, "hutchinson: probes = ", options.probes, ", must be ≥ 1");
}

// NOLINTBEGIN(performance-unnecessary-value-param): generators go by value, as in torch's API.
torch::Tensor frobenius_squared(const Linearization& at, const Hutchinson& options,
                                std::optional<at::Generator> generator, bool differentiable) {
  validate(options);
  torch::Tensor sum;
  for (int64_t m = 0; m < options.probes; ++m) {
    const auto probe = draw_probe(at.z, options.distribution, generator);
    const auto square = at.vjp(probe, differentiable).square().sum(1);
    sum = sum.defined() ? sum + square : square;
  }
  return options.probes == 1 ? sum : sum / options.probes;
}
// NOLINTEND(performance-unnecessary-value-param)

torch::Tensor jacobian_penalty(const Linearization& at, const Hutchinson& options,
                               std::optional<at::Generator> generator) {
  return frobenius_squared(at, options, std::move(generator), /*differentiable=*/true).mean() /
         at.dim();
}

torch::Tensor linsley_penalty(const Linearization& at, double lambda) {
  const auto column_sums = at.vjp(torch::ones_like(at.z), /*differentiable=*/true);
  return torch::linalg_vector_norm((column_sums - lambda).relu(), 2, at::IntArrayRef{1}).mean();
}

}  // namespace deq

#include "deq/jacobian/frobenius.h"

#include "core/require.h"
#include "jacobian/probes.h"

namespace deq {

void validate(const Hutchinson& options) {
  require(options.probes >= 1, "hutchinson: probes = {}, must be ≥ 1", options.probes);
}

torch::Tensor frobenius_squared(const Linearization& at, const Hutchinson& options,
                                const ProbeKey& key, bool differentiable) {
  validate(options);
  torch::Tensor sum;
  for (int64_t m = 0; m < options.probes; ++m) {
    const auto probe = draw_probe(at.z(), options.distribution, key, m);
    const auto square = at.vjp(probe, differentiable).square().sum(1);
    sum = sum.defined() ? sum + square : square;
  }
  return options.probes == 1 ? sum : sum / options.probes;
}

torch::Tensor jacobian_penalty(const Linearization& at, const Hutchinson& options,
                               const ProbeKey& key) {
  return frobenius_squared(at, options, key, /*differentiable=*/true).mean() / at.dim();
}

// NOLINTBEGIN(performance-unnecessary-value-param): generators go by value, as in torch's API.
torch::Tensor frobenius_squared(const Linearization& at, const Hutchinson& options,
                                std::optional<at::Generator> generator, bool differentiable) {
  return frobenius_squared(at, options, draw_key(generator), differentiable);
}

torch::Tensor jacobian_penalty(const Linearization& at, const Hutchinson& options,
                               std::optional<at::Generator> generator) {
  return jacobian_penalty(at, options, draw_key(generator));
}
// NOLINTEND(performance-unnecessary-value-param)

torch::Tensor linsley_penalty(const Linearization& at, double lambda) {
  const auto column_sums = at.vjp(torch::ones_like(at.z()), /*differentiable=*/true);
  return torch::linalg_vector_norm((column_sums - lambda).relu(), 2, at::IntArrayRef{1}).mean();
}

}  // namespace deq

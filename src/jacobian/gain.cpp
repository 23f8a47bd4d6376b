#include "deq/jacobian/gain.h"

#include "core/require.h"
#include "jacobian/probes.h"

// For a random row ε, k power steps give v = εJᵏ/‖εJᵏ‖, and the squared gain is
//
//   ‖vJ‖² = ‖εJᵏ⁺¹‖² / ‖εJᵏ‖².
//
// Each step is scaled to length one, so that neither Jᵏ's growth nor its decay leaves the numbers'
// range. docs/mathematics.md says where the gain goes with k.

namespace deq {

void validate(const PowerProbes& options) {
  require(options.steps >= 0, "power probes: steps = {}, must be ≥ 0", options.steps);
  validate(options.start);
}

torch::Tensor squared_gain(const Linearization& at, const PowerProbes& options, const ProbeKey& key,
                           bool differentiable) {
  validate(options);
  torch::Tensor sum;
  for (int64_t m = 0; m < options.start.probes; ++m) {
    auto v = unit_rows(draw_probe(at.z(), options.start.distribution, key, m));
    for (int64_t k = 0; k < options.steps; ++k) v = unit_rows(at.vjp(v));
    const auto gain = at.vjp(v, differentiable).square().sum(1);
    sum = sum.defined() ? sum + gain : gain;
  }
  return options.start.probes == 1 ? sum : sum / options.start.probes;
}

torch::Tensor spectral_penalty(const Linearization& at, const PowerProbes& options,
                               const ProbeKey& key) {
  return squared_gain(at, options, key, /*differentiable=*/true).mean();
}

// NOLINTBEGIN(performance-unnecessary-value-param): generators go by value, as in torch's API.
torch::Tensor squared_gain(const Linearization& at, const PowerProbes& options,
                           std::optional<at::Generator> generator, bool differentiable) {
  return squared_gain(at, options, draw_key(generator), differentiable);
}

torch::Tensor spectral_penalty(const Linearization& at, const PowerProbes& options,
                               std::optional<at::Generator> generator) {
  return spectral_penalty(at, options, draw_key(generator));
}
// NOLINTEND(performance-unnecessary-value-param)

}  // namespace deq

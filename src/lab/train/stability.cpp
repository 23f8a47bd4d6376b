#include "lab/train/stability.h"

#include "deq/jacobian/frobenius.h"
#include "deq/jacobian/spectrum.h"
#include "lab/base/random_streams.h"

namespace deq::lab {
namespace {

constexpr int64_t kStabilityProbes = 4;
// ρ to a percent is enough to see where a model stands, and a product costs as much as a step.
constexpr SpectralRadiusOptions kSpectrumOptions{
    .krylov_dim = 16, .max_products = 48, .tolerance = 1e-2};

}  // namespace

Metrics stability_metrics(const Equilibrated& equilibrium, int64_t seed) {
  const torch::NoGradGuard no_grad;
  const auto& at = equilibrium.linearization();
  const auto squares =
      frobenius_squared(at, Hutchinson{.probes = kStabilityProbes},
                        ProbeKey{.key = random_key(seed, RandomStream::StabilityProbes)});
  const auto rho =
      spectral_radius(at, kSpectrumOptions, random_stream(seed, RandomStream::StabilitySpectrum));
  return {{"jacobian_norm", squares.sqrt().mean().item<double>()},
          {"rho", rho.mean()},
          {"residual_trace", residual_trace(equilibrium.report)}};
}

}  // namespace deq::lab

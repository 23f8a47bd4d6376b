#include "deq/jacobian/frobenius.h"

#include <ATen/CPUGeneratorImpl.h>

#include <limits>

#include "core/require.h"
#include "core/rng.h"
#include "kernels/probes/probes.h"

namespace deq {
namespace {

torch::Tensor draw_probe(const torch::Tensor& like, ProbeDistribution distribution, uint64_t key,
                         int64_t first_sample) {
  const torch::NoGradGuard no_grad;
  auto probe = torch::empty(like.sizes(), like.options());
  const bool normal = distribution == ProbeDistribution::Gaussian;
  kernels::draw_probe(probe, normal ? kernels::Probe::Normal : kernels::Probe::Signs, key,
                      first_sample);
  return probe;
}

ProbeKey draw_key(const std::optional<at::Generator>& generator) {
  // By default the host's generator: asking a GPU's would wait for the GPU.
  const auto& source = generator ? *generator : at::detail::getDefaultCPUGenerator();
  auto key = torch::empty({}, torch::TensorOptions(torch::kInt64).device(source.device()));
  key.random_(std::numeric_limits<int64_t>::min(), /*to=*/std::nullopt, source);  // all 64 bits
  return {.key = static_cast<uint64_t>(key.item<int64_t>())};
}

}  // namespace

void validate(const Hutchinson& options) {
  require(options.probes >= 1, "hutchinson: probes = {}, must be ≥ 1", options.probes);
}

torch::Tensor frobenius_squared(const Linearization& at, const Hutchinson& options,
                                const ProbeKey& key, bool differentiable) {
  validate(options);
  torch::Tensor sum;
  for (int64_t m = 0; m < options.probes; ++m) {
    const auto own_key = random_key(key.key, static_cast<uint64_t>(m));
    const auto probe = draw_probe(at.z(), options.distribution, own_key, key.first_sample);
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

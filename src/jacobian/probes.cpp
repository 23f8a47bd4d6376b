#include "jacobian/probes.h"

#include <ATen/CPUGeneratorImpl.h>

#include <limits>

#include "core/rng.h"
#include "kernels/probes/probes.h"

namespace deq {

torch::Tensor draw_probe(const torch::Tensor& z, ProbeDistribution distribution,
                         const ProbeKey& key, int64_t number) {
  const torch::NoGradGuard no_grad;
  auto probe = torch::empty(z.sizes(), z.options());
  const bool normal = distribution == ProbeDistribution::Gaussian;
  kernels::draw_probe(probe, normal ? kernels::Probe::Normal : kernels::Probe::Signs,
                      random_key(key.key, static_cast<uint64_t>(number)), key.first_sample);
  return probe;
}

ProbeKey draw_key(const std::optional<at::Generator>& generator) {
  // By default the host's generator: asking a GPU's would wait for the GPU.
  const auto& source = generator ? *generator : at::detail::getDefaultCPUGenerator();
  auto key = torch::empty({}, torch::TensorOptions(torch::kInt64).device(source.device()));
  key.random_(std::numeric_limits<int64_t>::min(), /*to=*/std::nullopt, source);  // all 64 bits
  return {.key = static_cast<uint64_t>(key.item<int64_t>())};
}

torch::Tensor unit_rows(const torch::Tensor& v) {
  const auto norms = torch::linalg_vector_norm(v, 2, at::IntArrayRef{1}, /*keepdim=*/true);
  return torch::where(norms > 0, v / norms, v);
}

}  // namespace deq

#include "lab/tasks/stability.h"

#include "deq/jacobian/frobenius.h"
#include "deq/jacobian/spectrum.h"
#include "deq/nn/path_distance.h"
#include "lab/base/model_noise.h"
#include "lab/base/random_streams.h"

namespace deq::lab {
namespace {

constexpr int64_t kStabilityProbes = 4;
// ρ to a percent is enough to see where a model stands, and a product costs as much as a step.
constexpr SpectralRadiusOptions kSpectrumOptions{
    .krylov_dim = 16, .max_products = 48, .tolerance = 1e-2};

/// Sums over samples.
struct StabilityTally {
  double samples = 0, residual = 0, jacobian_norm = 0, rho = 0;

  void add(const Equilibrated& equilibrium, int64_t seed) {
    const auto& at = equilibrium.linearization();
    const auto norms =
        frobenius_squared(at, Hutchinson{.probes = kStabilityProbes},
                          ProbeKey{.key = random_key(seed, RandomStream::StabilityProbes),
                                   .first_sample = static_cast<int64_t>(samples)})
            .sqrt();
    const auto spectrum =
        spectral_radius(at, kSpectrumOptions, random_stream(seed, RandomStream::StabilitySpectrum));
    const auto count = static_cast<double>(at.batch());
    samples += count;
    residual += count * equilibrium.report.mean_relative();
    jacobian_norm += norms.sum().item<double>();
    rho += count * spectrum.mean();
  }
};

/// Training mode for a while: what it draws comes from a seed, and the statistics that it changes
/// are as before in the end.
class TrainingMode {
 public:
  TrainingMode(torch::nn::Module& model, int64_t seed) : model_(model) {
    for (const auto& buffer : model.buffers()) before_.push_back(buffer.clone());
    seed_model_noise(model.parameters().front().device(),
                     random_key(seed, RandomStream::StabilityNoise));
    model_.train();
  }

  ~TrainingMode() {
    model_.eval();
    const auto buffers = model_.buffers();
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(before_[i]);
  }

  TrainingMode(const TrainingMode&) = delete;
  TrainingMode& operator=(const TrainingMode&) = delete;

 private:
  torch::nn::Module& model_;
  std::vector<torch::Tensor> before_;
};

}  // namespace

Metrics stability_metrics(torch::nn::Module& model, int64_t seed, int64_t parts,
                          const SolverOptions& solver, const StabilityPass& pass) {
  const torch::NoGradGuard no_grad;
  StabilityTally evaluated, trained;
  Metrics metrics;
  const Solver from_elsewhere(solver);
  const auto starts = random_stream(seed, RandomStream::StabilityStarts);
  double path_distances = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const auto equilibria = pass(part);
    if (equilibria.empty()) return {};
    evaluated.add(equilibria.front(), seed);
    path_distances +=
        path_distance(equilibria.front(), from_elsewhere, starts).sum().item<double>();
    if (part == 0) {
      metrics.emplace_back("residual_trace", residual_trace(equilibria.front().report));
    }
  }
  {
    const TrainingMode training(model, seed);
    for (int64_t part = 0; part < parts; ++part) trained.add(pass(part).front(), seed);
  }
  const double samples = evaluated.samples;
  append(metrics, {{"jacobian_norm", evaluated.jacobian_norm / samples},
                   {"rho", evaluated.rho / samples},
                   {"path_distance", path_distances / samples},
                   {"training_residual", trained.residual / samples},
                   {"training_jacobian_norm", trained.jacobian_norm / samples},
                   {"training_rho", trained.rho / samples}});
  return metrics;
}

}  // namespace deq::lab

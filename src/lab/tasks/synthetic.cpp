#include "deq/lab/tasks/synthetic.h"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>

#include <utility>

#include "deq/jacobian/spectrum.h"
#include "deq/lab/data/batches/tensor_batches.h"
#include "deq/models/toy.h"
#include "deq/nn/path_distance.h"
#include "lab/base/random_streams.h"
#include "lab/tasks/make_experiment.h"

namespace deq::lab {
namespace {

constexpr int64_t kReachBudget = 200;  // evaluations allowed to reach a tolerance

/// The mean evaluations a solver spends on a sample to reach `rtol`. One that does not reach it
/// counts the whole budget.
double evaluations_to_reach(Equilibrium& layer, const torch::Tensor& x,
                            const SolverOptions& options, double rtol) {
  const Solver solver(
      with_max_evals(with_tolerance(options, Tolerance{.rtol = rtol}), kReachBudget));
  const auto report = layer->forward({x}, {.solver = &solver}).report;
  double sum = 0;
  for (const auto& sample : report.samples) {
    sum +=
        static_cast<double>(sample.status == Status::Converged ? sample.evaluations : kReachBudget);
  }
  return sum / static_cast<double>(report.samples.size());
}

Equilibrium make_layer(const SyntheticConfig& config) {
  const models::ToyOptions options{
      .hidden = config.model.hidden, .x_min = config.data.x_min, .x_max = config.data.x_max};
  return Equilibrium(
      models::ToyCell(options, random_stream(config.seed, RandomStream::SyntheticWeights)),
      EquilibriumOptions{.forward = config.solver.forward,
                         .gradient = gradient_options(config.gradient, config.solver.adjoint)});
}

}  // namespace

SyntheticTask::SyntheticTask(const SyntheticConfig& config, torch::Device device)
    : config_(config), layer_(make_layer(config_)) {
  const auto& data = config_.data;
  const auto type = storage_type(config_.precision);
  const auto draw = [&](int64_t samples, RandomStream stream) {
    auto set = draw_synthetic(samples, data.x_min, data.x_max, data.noise,
                              random_stream(config_.seed, stream));
    return SyntheticSet{set.x.to(device, type), set.y.to(device, type)};
  };
  train_ = draw(data.train_samples, RandomStream::SyntheticTraining);
  valid_ = draw(data.valid_samples, RandomStream::SyntheticValidation);
  layer_->to(device, type);
}

std::shared_ptr<const BatchSource> SyntheticTask::training_batches(const Shard& shard,
                                                                   OnUnreadable) {
  return std::make_shared<TensorBatches>(std::vector{train_.x, train_.y}, shard);
}

TaskPass SyntheticTask::forward(const Batch& batch, const EquilibriumPlan& how) {
  auto equilibrium = layer_->forward({batch.tensors[0]}, {.plan = &how});
  auto loss = torch::mse_loss(equilibrium.z(), batch.tensors[1]);
  return {.loss = std::move(loss), .equilibria = {std::move(equilibrium)}};
}

Metrics SyntheticTask::evaluate(const EquilibriumPlan& how, World&) {
  const auto equilibrium = layer_->forward({valid_.x}, {.plan = &how});
  Metrics metrics{{"mse", torch::mse_loss(equilibrium.z(), valid_.y).item<double>()},
                  {"nfe_forward", equilibrium.report.evaluations}};
  append(metrics, residual_metrics({equilibrium.report}));
  return metrics;
}

Metrics SyntheticTask::stability(const EquilibriumPlan& how) {
  const torch::NoGradGuard no_grad;
  auto precise = precise_layer();
  const auto x = valid_.x.to(torch::kCPU, torch::kDouble);
  const Solver exact(Broyden{.tol = {.rtol = 1e-10}, .max_evals = kReachBudget});
  const auto slope =
      dense_jacobian(precise->forward({x}, {.solver = &exact}).linearization()).abs().mean();
  const auto equilibrium = precise->forward({x}, {.plan = &how});
  const auto at = equilibrium.linearization();
  const auto rho =
      spectral_radius(at, {}, random_stream(config_.seed, RandomStream::SyntheticSpectrum));
  const auto distances = path_distance(equilibrium, Solver(how.options().forward),
                                       random_stream(config_.seed, RandomStream::StabilityStarts));
  return {{"slope", slope.item<double>()},
          {"jacobian_norm", torch::linalg_matrix_norm(dense_jacobian(at)).mean().item<double>()},
          {"rho", rho.mean()},
          {"path_distance", distances.mean().item<double>()},
          {"residual_trace", residual_trace(equilibrium.report)}};
}

Metrics SyntheticTask::closing() {
  const torch::NoGradGuard no_grad;
  Metrics metrics;
  auto layer = precise_layer();
  const auto x = valid_.x.to(torch::kCPU, torch::kDouble);
  for (const auto& [label, rtol] : {std::pair{"1e-3", 1e-3}, std::pair{"1e-6", 1e-6}}) {
    for (const SolverOptions& solver : {SolverOptions(Picard{}), SolverOptions(Anderson{}),
                                        SolverOptions(Broyden{.memory = kReachBudget})}) {
      metrics.emplace_back(fmt::format("nfe_to_{}.{}", label, solver_name(solver)),
                           evaluations_to_reach(layer, x, solver, rtol));
    }
  }
  return metrics;
}

Experiment experiment_from(const SyntheticConfig& config) {
  return make_experiment<SyntheticTask>("synthetic", config);
}

Equilibrium SyntheticTask::precise_layer() const {
  auto copy = make_layer(config_);
  const torch::NoGradGuard no_grad;
  auto target = copy->parameters();
  const auto source = layer_->parameters();
  for (size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
  copy->to(torch::kDouble);
  return copy;
}

}  // namespace deq::lab

#include "deq/train/synthetic.h"

#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>

#include <chrono>
#include <cmath>
#include <numbers>

#include "deq/core/error.h"
#include "deq/core/rng.h"
#include "deq/jacobian/frobenius.h"
#include "deq/jacobian/spectrum.h"
#include "deq/models/toy.h"
#include "deq/version.h"

namespace deq {
namespace {

enum Stream : uint64_t { kTrainData, kValidData, kWeights, kShuffle, kCoin, kProbes, kSpectrum };

constexpr int64_t kReachBudget = 200;  // evaluations allowed to reach a tolerance

double learning_rate(const TrainConfig& train, int64_t step, int64_t steps) {
  if (train.lr_schedule == LearningRateSchedule::Constant) return train.lr;
  const double progress = static_cast<double>(step) / static_cast<double>(steps);
  return 0.5 * train.lr * (1.0 + std::cos(std::numbers::pi * progress));
}

void set_learning_rate(torch::optim::Optimizer& optimiser, double lr) {
  for (auto& group : optimiser.param_groups()) group.options().set_lr(lr);
}

double gradient_norm(const std::vector<torch::Tensor>& parameters) {
  double square = 0;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) square += parameter.grad().square().sum().item<double>();
  }
  return std::sqrt(square);
}

/// The mean evaluations a solver spends on a sample to reach `rtol`. One that does not reach it
/// counts the whole budget.
double evaluations_to_reach(Equilibrium& layer, const torch::Tensor& x,
                            const SolverOptions& options, double rtol) {
  const Solver solver(
      with_max_evals(with_tolerance(options, Tolerance{.rtol = rtol}), kReachBudget));
  const auto report = layer->forward({x}, solver).report;
  double sum = 0;
  for (const auto& sample : report.samples) {
    sum +=
        static_cast<double>(sample.status == Status::Converged ? sample.evaluations : kReachBudget);
  }
  return sum / static_cast<double>(report.samples.size());
}

/// Sums over the steps of an epoch, for one line of metrics.
struct EpochTotals {
  int64_t steps = 0, penalised = 0;
  double task_loss = 0, loss = 0, penalty = 0, forward = 0, adjoint = 0, residual = 0;
};

}  // namespace

Equilibrium make_synthetic_layer(const SyntheticConfig& config) {
  const ToyOptions options{
      .hidden = config.model.hidden, .x_min = config.data.x_min, .x_max = config.data.x_max};
  return Equilibrium(
      ToyCell(options, random_stream(static_cast<uint64_t>(config.seed), kWeights)),
      EquilibriumOptions{.forward = config.solver.forward,
                         .gradient = gradient_options(config.gradient, config.solver.adjoint)});
}

SyntheticExperiment::SyntheticExperiment(const SyntheticConfig& config, torch::Device device)
    : config_(config), device_(device), layer_(make_synthetic_layer(config_)) {
  const auto& data = config_.data;
  const auto draw = [&](int64_t samples, Stream stream) {
    auto set = draw_synthetic(samples, data.x_min, data.x_max, data.noise,
                              random_stream(static_cast<uint64_t>(config_.seed), stream));
    return SyntheticSet{set.x.to(device_), set.y.to(device_)};
  };
  train_ = draw(data.train_samples, kTrainData);
  valid_ = draw(data.valid_samples, kValidData);
  layer_->to(device_);
}

void SyntheticExperiment::train(const TrainingHooks& hooks) {
  const auto& settings = config_.train;
  const auto seed = static_cast<uint64_t>(config_.seed);
  auto shuffle = random_stream(seed, kShuffle);
  auto coin = random_stream(seed, kCoin);
  auto probes = random_stream(seed, kProbes);
  const auto parameters = layer_->parameters();
  torch::optim::Adam optimiser(parameters, torch::optim::AdamOptions(settings.lr));
  const int64_t batches = (train_.x.size(0) + settings.batch_size - 1) / settings.batch_size;
  const int64_t steps = settings.epochs * batches;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  layer_->train();
  int64_t step = 0;
  for (int64_t epoch = 1; epoch <= settings.epochs; ++epoch) {
    const double epoch_start = seconds();
    const auto order = torch::randperm(train_.x.size(0), shuffle).to(device_);
    EpochTotals totals;
    double lr = settings.lr, gamma = 0, grad_norm = 0;
    for (const auto& batch : order.split(settings.batch_size)) {
      lr = learning_rate(settings, step, steps);
      set_learning_rate(optimiser, lr);
      gamma = config_.jacobian.gamma.at(step);
      // The coin is tossed at every step, so that runs that differ in γ alone see the same tosses.
      const bool penalised =
          torch::rand({}, coin).item<double>() < config_.jacobian.probability.at(step) && gamma > 0;
      optimiser.zero_grad();
      const auto eq = layer_->forward(train_.x.index_select(0, batch));
      const auto task_loss = torch::mse_loss(eq.z(), train_.y.index_select(0, batch));
      auto loss = task_loss;
      if (penalised) {
        const auto penalty =
            jacobian_penalty(eq.linearization(), config_.jacobian.estimator, probes);
        loss = loss + gamma * penalty;
        totals.penalty += penalty.item<double>();
        ++totals.penalised;
      }
      const double value = loss.item<double>();
      require(std::isfinite(value), "training stopped at step ", step, ": the loss is not finite; ",
              eq.report.converged() ? "lower train.lr" : advice(eq.report.status));
      loss.backward();
      optimiser.step();
      ++step;
      ++totals.steps;
      totals.loss += value;
      totals.task_loss += task_loss.item<double>();
      totals.forward += static_cast<double>(eq.report.evaluations);
      totals.adjoint += static_cast<double>(eq.adjoint().evaluations);
      totals.residual += eq.report.mean_relative();
      if (hooks.progress) hooks.progress(step, steps, value);
    }
    grad_norm = gradient_norm(parameters);
    if (!hooks.record) continue;
    const auto count = static_cast<double>(totals.steps);
    Metrics line{{"step", step},
                 {"epoch", epoch},
                 {"split", "train"},
                 {"seconds", seconds()},
                 {"loss", totals.loss / count},
                 {"task_loss", totals.task_loss / count}};
    if (totals.penalised > 0) {
      line.emplace_back("penalty", totals.penalty / static_cast<double>(totals.penalised));
    }
    line.insert(line.end(), {{"gamma", gamma},
                             {"nfe_forward", totals.forward / count},
                             {"nfe_adjoint", totals.adjoint / count},
                             {"residual", totals.residual / count},
                             {"lr", lr},
                             {"grad_norm", grad_norm},
                             {"samples_per_s",
                              static_cast<double>(train_.x.size(0)) / (seconds() - epoch_start)}});
    hooks.record(line);
    const bool last = epoch == settings.epochs;
    if (last || epoch % settings.eval_every == 0) {
      Metrics evaluation{
          {"step", step}, {"epoch", epoch}, {"split", "valid"}, {"seconds", seconds()}};
      const auto measured = last ? evaluate_fully() : evaluate();
      evaluation.insert(evaluation.end(), measured.begin(), measured.end());
      hooks.record(evaluation);
    }
  }
}

Metrics SyntheticExperiment::evaluate() const {
  const torch::NoGradGuard no_grad;
  auto layer = layer_;  // a holder: forward() is not const
  const auto eq = layer->forward(valid_.x);
  const auto mse = torch::mse_loss(eq.z(), valid_.y).item<double>();
  auto precise = precise_layer();
  const auto x = valid_.x.to(torch::kCPU, torch::kDouble);
  const Solver exact(Broyden{.tol = {.rtol = 1e-10}, .max_evals = kReachBudget});
  const auto at = precise->forward({x}, exact).linearization();
  const auto jacobian = dense_jacobian(at);
  const auto rho =
      spectral_radius(at, {}, random_stream(static_cast<uint64_t>(config_.seed), kSpectrum));
  return {{"mse", mse},
          {"nfe_forward", eq.report.evaluations},
          {"residual", eq.report.mean_relative()},
          {"residual_p50", eq.report.relative_quantile(0.50)},
          {"residual_p90", eq.report.relative_quantile(0.90)},
          {"residual_p99", eq.report.relative_quantile(0.99)},
          {"slope", jacobian.abs().mean().item<double>()},
          {"jacobian_norm", torch::linalg_matrix_norm(jacobian).mean().item<double>()},
          {"rho", rho.mean()}};
}

Metrics SyntheticExperiment::evaluate_fully() const {
  auto metrics = evaluate();
  const torch::NoGradGuard no_grad;
  auto layer = precise_layer();
  const auto x = valid_.x.to(torch::kCPU, torch::kDouble);
  for (const auto& [label, rtol] : {std::pair{"1e-3", 1e-3}, std::pair{"1e-6", 1e-6}}) {
    for (const SolverOptions& solver : {SolverOptions(Picard{}), SolverOptions(Anderson{}),
                                        SolverOptions(Broyden{.memory = kReachBudget})}) {
      metrics.emplace_back(c10::str("nfe_to_", label, ".", name(solver)),
                           evaluations_to_reach(layer, x, solver, rtol));
    }
  }
  return metrics;
}

TensorFile SyntheticExperiment::checkpoint() const {
  TensorFile file;
  for (const auto& item : layer_->named_parameters()) {
    file.tensors[item.key()] = item.value().detach().cpu();
  }
  file.metadata = {{"format", "deq"}, {"deq_version", version()}, {"config", to_toml(config_)}};
  return file;
}

void SyntheticExperiment::restore(const TensorFile& file) {
  const torch::NoGradGuard no_grad;
  const auto parameters = layer_->named_parameters();
  for (const auto& [name, tensor] : file.tensors) {
    require(parameters.contains(name), "the checkpoint holds \"", name,
            "\", which this model does not have");
  }
  for (const auto& item : parameters) {
    const auto found = file.tensors.find(item.key());
    require(found != file.tensors.end(), "the checkpoint lacks \"", item.key(), "\"");
    require(found->second.sizes() == item.value().sizes(), "the checkpoint's \"", item.key(),
            "\" has shape ", found->second.sizes(), ", this model's ", item.value().sizes());
  }
  for (const auto& item : parameters) item.value().copy_(file.tensors.at(item.key()));
}

Equilibrium SyntheticExperiment::precise_layer() const {
  auto copy = make_synthetic_layer(config_);
  const torch::NoGradGuard no_grad;
  auto target = copy->parameters();
  const auto source = layer_->parameters();
  for (size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
  copy->to(torch::kDouble);
  return copy;
}

}  // namespace deq

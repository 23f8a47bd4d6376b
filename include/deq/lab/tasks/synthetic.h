#pragma once

#include <torch/types.h>

#include "deq/lab/data/batches/synthetic.h"
#include "deq/lab/settings/synthetic.h"
#include "deq/lab/tasks/experiment.h"
#include "deq/lab/train/task.h"
#include "deq/nn/equilibrium.h"

namespace deq::lab {

/// The paper's experiment on y = h(x) (§5.1).
class SyntheticTask : public Task {
 public:
  explicit SyntheticTask(const SyntheticConfig& config, torch::Device device = torch::kCPU);

  torch::nn::Module& model() override { return *layer_; }
  std::shared_ptr<const BatchSource> training_batches(const Shard& shard,
                                                      OnUnreadable on_unreadable) override;
  TaskPass forward(const Batch& batch, const EquilibriumPlan& how) override;
  /// The set is small: every rank evaluates all of it.
  Metrics evaluate(const EquilibriumPlan& how, World& world) override;
  /// In float64: |∂f/∂z| at the exact equilibria, ρ and ‖J‖_F where `how` ends.
  Metrics stability(const EquilibriumPlan& how) override;
  /// The evaluations each solver needs to reach 1e-3 and 1e-6.
  Metrics closing() override;
  Goal goal() const override { return {.metric = "mse"}; }
  int64_t validation_samples() const override { return valid_.x.size(0); }

  const SyntheticConfig& config() const { return config_; }
  const SyntheticSet& validation() const { return valid_; }
  /// The trained layer in float64 on the CPU, for measurements finer than float32 allows.
  Equilibrium precise_layer() const;

 private:
  SyntheticConfig config_;
  SyntheticSet train_, valid_;
  Equilibrium layer_;
};

/// The experiment of a configuration that has been read already.
Experiment experiment_from(const SyntheticConfig& config);

}  // namespace deq::lab

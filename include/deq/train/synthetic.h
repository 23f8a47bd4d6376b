#pragma once

#include <torch/types.h>

#include <functional>

#include "deq/config/synthetic.h"
#include "deq/data/synthetic.h"
#include "deq/io/safetensors.h"
#include "deq/nn/equilibrium.h"
#include "deq/train/metrics.h"

namespace deq {

/// A layer of the synthetic experiment, its weights as given or as the seed makes them.
Equilibrium make_synthetic_layer(const SyntheticConfig& config);

struct TrainingHooks {
  std::function<void(const Metrics&)> record;                              ///< a line of metrics
  std::function<void(int64_t step, int64_t steps, double loss)> progress;  ///< after each step
};

/// The paper's experiment on y = h(x) (§5.1): data, model, training, evaluation.
class SyntheticExperiment {
 public:
  explicit SyntheticExperiment(const SyntheticConfig& config, torch::Device device = torch::kCPU);

  /// Trains from the current weights. Records one line a training epoch and one an evaluation; the
  /// last evaluation is complete. Throws Error when the loss is no longer finite.
  void train(const TrainingHooks& hooks);

  /// The validation error and residual at the training budget, and ρ and slope at the equilibrium.
  Metrics evaluate() const;
  /// The same, with the evaluations each solver needs to reach 1e-3 and 1e-6.
  Metrics evaluate_fully() const;

  TensorFile checkpoint() const;
  /// Throws Error when a tensor is missing, superfluous or of the wrong shape.
  void restore(const TensorFile& file);

  const SyntheticConfig& config() const { return config_; }
  const SyntheticSet& validation() const { return valid_; }
  /// The trained layer in float64 on the CPU, for measurements finer than float32 allows.
  Equilibrium precise_layer() const;

 private:
  SyntheticConfig config_;
  torch::Device device_;
  SyntheticSet train_, valid_;
  Equilibrium layer_;
};

}  // namespace deq

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "deq/core/precision.h"
#include "deq/lab/data/batches/dataset_batches.h"
#include "deq/lab/data/batches/loader.h"
#include "deq/lab/settings/learning_rate.h"
#include "deq/lab/settings/optimiser_options.h"
#include "deq/lab/settings/parts.h"

namespace deq::lab {

/// By how many evaluations the forward budget of a training step may differ from the solver's.
struct EvalSpan {
  int64_t low = 0, high = 0;
};

/// The training steps whose budget differs.
enum class VariedSteps { All, Penalised };

/// [train.switch]: from the unrolled start to equilibria. Budgets, forward and adjoint, are larger
/// at first and fall to the solvers' own; some steps may still be unrolled, fewer and fewer.
struct SwitchConfig {
  int64_t steps = 0;
  int64_t extra_evals = 0;
  bool blended = false;
};

/// [train.pretrain]: at first the layer is unrolled, which needs no equilibrium to be there yet.
struct PretrainConfig {
  int64_t steps = 0;
  int64_t layers = 1;
  double gamma = 0;
};

/// [train.loader].
struct LoaderConfig {
  LoaderOptions threads{};
  OnUnreadable unreadable = OnUnreadable::Fail;
};

/// [train.checkpoints].
struct CheckpointConfig {
  std::optional<int64_t> every_steps{};
  double every_minutes = 10;
  int64_t keep = 2;
};

/// [train.failure]: what a step with a loss or gradient that is not finite leads to.
struct FailureConfig {
  int64_t skipped_in_a_row = 5;
  int64_t rollbacks = 3;
  double lr_factor = 0.5;
};

/// [train].
struct TrainConfig {
  int64_t epochs = 1;
  std::optional<int64_t> steps{};
  int64_t batch_size = 64;
  int64_t accumulation = 1;
  double lr = 1e-3;
  std::optional<double> clip_norm{};
  double weight_average = 0;
  double start_noise = 0;
  double start_penalty = 0;
  double step_penalty = 0;
  int64_t step_evals = 0;
  EvalSpan random_evals{};
  VariedSteps random_evals_on = VariedSteps::All;
  int64_t eval_every = 1;
  std::optional<int64_t> eval_every_steps{};
  std::vector<int64_t> eval_budgets{};
  int64_t log_every = 50;
  OptimiserOptions optimiser = Adam{};
  LearningRateSchedule lr_schedule{};
  PretrainConfig pretrain{};
  SwitchConfig switching{};
  LoaderConfig loader{};
  CheckpointConfig checkpoints{};
  FailureConfig failure{};
};

/// How a model is trained, whatever the model: what every experiment's configuration begins with.
struct Recipe {
  int64_t seed = 0;
  Precision precision = Precision::Float32;
  SolverConfig solver{};
  GradientConfig gradient = ImplicitGradient{};
  JacobianConfig jacobian{};
  TrainConfig train{};
};

}  // namespace deq::lab

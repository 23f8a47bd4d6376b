#pragma once

#include <cstdint>
#include <variant>

#include "deq/adjoint/options.h"
#include "deq/jacobian/frobenius.h"
#include "deq/jacobian/schedule.h"
#include "deq/solvers/options.h"

// The parts of a configuration that experiments share. Each is one TOML table; docs/config.md lists
// the keys with their ranges.

namespace deq {

/// [solver.forward] and [solver.adjoint].
struct SolverConfig {
  SolverOptions forward = Broyden{};
  SolverOptions adjoint = Broyden{};  ///< used by the implicit gradient only
};

/// The implicit gradient as a configuration names it: its solver is SolverConfig::adjoint, which
/// stays in the file when another gradient is tried.
struct ImplicitGradient {};

/// [gradient].
using GradientConfig = std::variant<ImplicitGradient, Truncated, JacobianFree, Phantom, Unrolled>;

/// The gradient with its solver, as a layer takes it.
GradientOptions gradient_options(const GradientConfig& gradient, const SolverOptions& adjoint);

/// [jacobian]: the penalty gamma·‖J‖²_F/D, applied on a training step with the given probability.
struct JacobianConfig {
  Schedule gamma{.shape = ConstantSchedule{.value = 0.0}};
  Schedule probability{.shape = ConstantSchedule{.value = 1.0}};
  Hutchinson estimator{};
};

enum class LearningRateSchedule { Constant, Cosine };

/// [train].
struct TrainConfig {
  int64_t epochs = 1;
  int64_t batch_size = 64;
  double lr = 1e-3;
  LearningRateSchedule lr_schedule = LearningRateSchedule::Cosine;
  int64_t eval_every = 1;
};

}  // namespace deq

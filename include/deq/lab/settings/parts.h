#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "deq/adjoint/options.h"
#include "deq/core/replay.h"
#include "deq/jacobian/frobenius.h"
#include "deq/jacobian/schedule.h"
#include "deq/lab/settings/gamma_control.h"
#include "deq/solvers/options.h"

// The parts of a configuration that say what is solved and regularised. Each is one TOML table;
// docs/config.md lists the keys with their ranges.

namespace deq::lab {

/// [solver].
struct SolverConfig {
  bool one_more_step = true;
  int64_t float32_evals = 0;
  Replay replay = Replay::Automatic;
  SolverOptions forward = Broyden{};
  SolverOptions adjoint = Broyden{};  ///< used by the implicit gradient, and by a refined shine
};

/// The implicit gradient as a configuration names it: its solver is SolverConfig::adjoint, which
/// stays in the file when another gradient is tried.
struct ImplicitGradient {};

/// Unrolled steps whose number may differ from one training step to the next: n ~ Poisson(τ), at
/// least 1, with ln τ normal of mean ln steps − spread²/2 and standard deviation spread. The mean
/// of τ is `steps`, whatever the spread.
struct UnrolledGradient : Unrolled {
  double spread = 0;  ///< ≥ 0; 0: always `steps`
};

/// Likewise SHINE's, whose refinement is by SolverConfig::adjoint.
struct ShineGradient {
  double fallback = Shine{}.fallback;
  bool refined = false;
};

/// [gradient].
using GradientConfig = std::variant<ImplicitGradient, Truncated, JacobianFree, ShineGradient,
                                    Phantom, UnrolledGradient, Reversible>;

/// The gradient with its solver, as a layer takes it.
GradientOptions gradient_options(const GradientConfig& gradient, const SolverOptions& adjoint);

/// [jacobian]: the penalty gamma·‖J‖²_F/D, or with power steps gamma times the squared gain,
/// applied on a training step with the given probability. Steps are counted from the end of the
/// pretraining.
struct JacobianConfig {
  Schedule gamma{.shape = ConstantSchedule{.value = 0.0}};
  Schedule probability{.shape = ConstantSchedule{.value = 1.0}};
  Hutchinson estimator{};
  int64_t power_steps = 0;
  std::optional<int64_t> stop_epoch{};  ///< from this epoch on there is no penalty
  GammaControl control{};               ///< [jacobian.control]
};

}  // namespace deq::lab

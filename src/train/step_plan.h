#pragma once

#include <cstdint>

#include "deq/config/recipe.h"
#include "deq/nn/equilibrium.h"
#include "deq/train/gamma_controller.h"

namespace deq {

/// What a training step does, decided before it: a function of recipe, step and controller.
struct StepPlan {
  double lr = 0;
  double gamma = 0;
  double probability = 0;
  bool penalised = false;
  EquilibriumOptions how;
};

StepPlan plan_step(const Recipe& recipe, const GammaController& controller, int64_t step,
                   int64_t steps, int64_t steps_per_epoch);

/// Everything random of a training has a stream of its own, and a key for each step.
enum class Stream : uint64_t { Order, Coin, Probes, Budget, Model };

uint64_t step_key(const Recipe& recipe, Stream stream, int64_t step);

}  // namespace deq

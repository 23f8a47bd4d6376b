#pragma once

#include <cstdint>

#include "deq/lab/settings/recipe.h"
#include "deq/nn/equilibrium.h"
#include "lab/train/gamma_controller.h"

namespace deq::lab {

/// What a training step does, decided before it: a function of recipe, step and controller.
struct StepPlan {
  double lr = 0;
  double gamma = 0;
  double probability = 0;
  bool penalised = false;
  bool pretraining = false;  ///< unrolled instead of solved
  double start_penalty = 0;
  double step_penalty = 0;
  int64_t step_evals = 0;  ///< before the step whose distance is penalised
  EquilibriumOptions how;
};

/// Of the first steps, those of which some are pretraining.
int64_t steps_with_pretraining(const TrainConfig& train);

StepPlan plan_step(const Recipe& recipe, const GammaController& controller, int64_t step,
                   int64_t steps, int64_t steps_per_epoch);

}  // namespace deq::lab

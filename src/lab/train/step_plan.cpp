#include "lab/train/step_plan.h"

#include <algorithm>

#include "deq/lab/train/experiment.h"
#include "lab/base/random_streams.h"

namespace deq::lab {
namespace {

/// In [0, 1), from the upper 53 bits.
double uniform(uint64_t key) {
  return static_cast<double>(key >> 11) * 0x1p-53;
}

/// δ in [−width, width].
int64_t variation(uint64_t key, int64_t width) {
  return static_cast<int64_t>(uniform(key) * static_cast<double>(2 * width + 1)) - width;
}

}  // namespace

StepPlan plan_step(const Recipe& recipe, const GammaController& controller, int64_t step,
                   int64_t steps, int64_t steps_per_epoch) {
  const auto& train = recipe.train;
  const auto& jacobian = recipe.jacobian;
  StepPlan plan{.lr = train.lr_schedule.at(step, steps, train.lr),
                .gamma = 0,
                .probability = 0,
                .penalised = false,
                .how = evaluation_options(recipe)};
  const int64_t since_pretraining = std::max<int64_t>(step - train.pretrain.steps, 0);
  const bool pretraining = step < train.pretrain.steps;
  const bool stopped = jacobian.stop_epoch && step >= *jacobian.stop_epoch * steps_per_epoch;
  if (pretraining) {
    plan.gamma = train.pretrain.gamma;
    plan.how.gradient = Unrolled{.steps = train.pretrain.layers};
  } else if (!stopped) {
    plan.gamma = controller.active() ? controller.gamma() : jacobian.gamma.at(since_pretraining);
  }
  plan.probability = jacobian.probability.at(since_pretraining);
  plan.penalised = plan.gamma > 0 && uniform(random_key(recipe.seed, RandomStream::PenaltyCoin,
                                                        step)) < plan.probability;
  if (auto* unrolled = std::get_if<Unrolled>(&plan.how.gradient)) {
    unrolled->replayed = !plan.penalised;  // the penalty is to have the same dropout masks
  }
  if (train.random_evals > 0 && !pretraining) {
    const auto delta =
        variation(random_key(recipe.seed, RandomStream::SolverBudget, step), train.random_evals);
    const auto budget = max_evals(plan.how.forward) + delta;
    plan.how.forward = with_max_evals(plan.how.forward, std::max<int64_t>(budget, 1));
  }
  return plan;
}

}  // namespace deq::lab

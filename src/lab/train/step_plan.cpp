#include "lab/train/step_plan.h"

#include <algorithm>
#include <cmath>

#include "deq/lab/settings/evaluation.h"
#include "lab/base/keyed_numbers.h"
#include "lab/base/random_streams.h"

namespace deq::lab {
namespace {

/// In [0, 1), from the upper 53 bits.
double uniform(uint64_t key) {
  return static_cast<double>(key >> 11) * 0x1p-53;
}

int64_t drawn_from(const EvalSpan& span, uint64_t key) {
  const auto count = static_cast<double>(span.high - span.low + 1);
  return span.low + static_cast<int64_t>(uniform(key) * count);
}

/// The steps of one training step. Not replayed: each number of them would be a recording of its
/// own.
Unrolled drawn_from(const UnrolledGradient& gradient, uint64_t key) {
  KeyedNumbers numbers(key);
  const double spread = gradient.spread;
  const double tau = static_cast<double>(gradient.steps) *
                     std::exp(spread * numbers.normal() - spread * spread / 2);
  return unrolled_for(gradient, std::max<int64_t>(numbers.poisson(tau), 1));
}

SolverOptions with_more_evals(const SolverOptions& solver, int64_t more) {
  return with_max_evals(solver, std::max<int64_t>(max_evals(solver) + more, 1));
}

/// What a budget has more, so many steps after the pretraining.
int64_t extra_evals(const SwitchConfig& switching, int64_t since_pretraining) {
  const auto left = std::max<int64_t>(switching.steps - since_pretraining, 0);
  if (left == 0) return 0;
  return (switching.extra_evals * left + switching.steps - 1) / switching.steps;
}

/// All of the first steps are, and fewer and fewer of a blended switch.
bool is_pretraining(const TrainConfig& train, int64_t seed, int64_t step) {
  const int64_t since = step - train.pretrain.steps;
  if (since < 0) return true;
  if (step >= steps_with_pretraining(train)) return false;
  const double solved = static_cast<double>(since) / static_cast<double>(train.switching.steps);
  return uniform(random_key(seed, RandomStream::SwitchCoin, step)) >= solved;
}

}  // namespace

int64_t steps_with_pretraining(const TrainConfig& train) {
  return train.pretrain.steps + (train.switching.blended ? train.switching.steps : 0);
}

StepPlan plan_step(const Recipe& recipe, const GammaController& controller, int64_t step,
                   int64_t steps, int64_t steps_per_epoch) {
  const auto& train = recipe.train;
  const auto& jacobian = recipe.jacobian;
  StepPlan plan{.lr = train.lr_schedule.at(step, steps, train.lr),
                .gamma = 0,
                .probability = 0,
                .penalised = false,
                .pretraining = is_pretraining(train, recipe.seed, step),
                .how = evaluation_options(recipe)};
  const int64_t since_pretraining = std::max<int64_t>(step - train.pretrain.steps, 0);
  const bool stopped = jacobian.stop_epoch && step >= *jacobian.stop_epoch * steps_per_epoch;
  if (plan.pretraining) {
    plan.gamma = train.pretrain.gamma;
    plan.how.gradient = Unrolled{.steps = train.pretrain.layers};
  } else if (!stopped) {
    plan.gamma = controller.active() ? controller.gamma() : jacobian.gamma.at(since_pretraining);
  }
  plan.probability = jacobian.probability.at(since_pretraining);
  plan.penalised = plan.gamma > 0 && uniform(random_key(recipe.seed, RandomStream::PenaltyCoin,
                                                        step)) < plan.probability;
  const auto* random = std::get_if<UnrolledGradient>(&recipe.gradient);
  if (random != nullptr && random->spread > 0 && !plan.pretraining) {
    plan.how.gradient =
        drawn_from(*random, random_key(recipe.seed, RandomStream::UnrolledSteps, step));
  } else if (auto* unrolled = std::get_if<Unrolled>(&plan.how.gradient)) {
    // The penalty is to have the same dropout masks, and a solve in between, which a blended switch
    // has, forgets the recording.
    const bool between_solves = plan.pretraining && step >= train.pretrain.steps;
    unrolled->replayed = !plan.penalised && !between_solves;
    unrolled->measured = false;  // every step is logged: what is known for nothing is enough
  }
  if (plan.pretraining) return plan;
  plan.how.start_noise = train.start_noise;
  plan.start_penalty = train.start_penalty;
  plan.step_penalty = train.step_penalty;
  if (train.step_penalty > 0) {
    // The step is to have the solve's dropout masks, which stay inside of a recording.
    plan.how.replay = Replay::Off;
    plan.step_evals = drawn_from(EvalSpan{.low = 0, .high = train.step_evals},
                                 random_key(recipe.seed, RandomStream::StepEvals, step));
  }
  const auto extra = extra_evals(train.switching, since_pretraining);
  const bool varied = train.random_evals_on == VariedSteps::All || plan.penalised;
  const auto drawn = varied ? drawn_from(train.random_evals,
                                         random_key(recipe.seed, RandomStream::SolverBudget, step))
                            : 0;
  plan.how.forward = with_more_evals(plan.how.forward, extra + drawn);
  // The step's distance is that from a state on the way of its solve.
  plan.step_evals = std::min(plan.step_evals, max_evals(plan.how.forward) - 1);
  if (const auto* adjoint = adjoint_solver(plan.how.gradient)) {
    plan.how.gradient = with_adjoint_evals(plan.how.gradient, max_evals(*adjoint) + extra);
  }
  return plan;
}

}  // namespace deq::lab

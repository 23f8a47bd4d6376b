#include "lab/train/start_penalties.h"

#include "deq/nn/start_distance.h"

namespace deq::lab {
namespace {

void add_mean(torch::Tensor& sum, const torch::Tensor& of_samples) {
  const auto mean = of_samples.mean();
  sum = sum.defined() ? sum + mean : mean;
}

/// Where the step begins; empty: at the start.
State part_way(const Equilibrated& equilibrium, const StepPlan& plan) {
  if (plan.step_evals == 0) return {};
  // The last evaluation of a solve judges the iterate that those before it made.
  const Solver solver(with_max_evals(plan.how.forward, plan.step_evals + 1));
  const auto found = equilibrium.solved_from(equilibrium.start(), solver);
  return StateLayout::of(equilibrium.state).unpack(found.z);
}

}  // namespace

StartPenalties start_penalties(const TaskPass& pass, const StepPlan& plan) {
  StartPenalties penalties;
  for (const auto& equilibrium : pass.equilibria) {
    if (plan.start_penalty > 0) add_mean(penalties.start, start_distance(equilibrium));
    if (plan.step_penalty > 0) {
      add_mean(penalties.step, step_distance(equilibrium, part_way(equilibrium, plan)));
    }
  }
  return penalties;
}

}  // namespace deq::lab

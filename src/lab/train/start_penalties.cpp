#include "lab/train/start_penalties.h"

#include "deq/nn/start_distance.h"

namespace deq::lab {
namespace {

void add_mean(torch::Tensor& sum, const torch::Tensor& of_samples) {
  const auto mean = of_samples.mean();
  sum = sum.defined() ? sum + mean : mean;
}

}  // namespace

StartPenalties::Distances StartPenalties::of(const TaskPass& pass, const StepPlan& plan) {
  Distances distances;
  for (const auto& equilibrium : pass.equilibria) {
    if (plan.start_penalty > 0) add_mean(distances.start, start_distance(equilibrium));
    if (plan.step_penalty > 0) {
      add_mean(distances.step, step_distance(equilibrium, part_way(equilibrium, plan)));
    }
  }
  return distances;
}

State StartPenalties::part_way(const Equilibrated& equilibrium, const StepPlan& plan) {
  if (plan.step_evals == 0) return {};
  // The last evaluation of a solve judges the iterate that those before it made.
  const auto evals = plan.step_evals + 1;
  const auto& solver =
      solvers_.try_emplace(evals, with_max_evals(plan.how.forward, evals)).first->second;
  const auto found = equilibrium.solved_from(equilibrium.start(), solver);
  return StateLayout::of(equilibrium.state).unpack(found.z);
}

}  // namespace deq::lab

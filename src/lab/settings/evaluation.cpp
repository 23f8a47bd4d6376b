#include "deq/lab/settings/evaluation.h"

#include <algorithm>
#include <variant>

namespace deq::lab {

EquilibriumOptions evaluation_options(const Recipe& recipe) {
  return {.forward = recipe.solver.forward,
          .gradient = gradient_options(recipe.gradient, recipe.solver.adjoint),
          .one_more_step = recipe.solver.one_more_step,
          .float32_evals = recipe.solver.float32_evals,
          .replay = recipe.solver.replay};
}

EquilibriumOptions within_budget(EquilibriumOptions options, int64_t budget) {
  options.forward = with_max_evals(options.forward, budget);
  if (auto* unrolled = std::get_if<Unrolled>(&options.gradient)) {
    *unrolled = unrolled_for(*unrolled, budget);
  }
  return options;
}

Unrolled unrolled_for(Unrolled how, int64_t steps) {
  how.steps = steps;
  how.backpropagated = std::min(how.backpropagated, steps);
  return how;
}

}  // namespace deq::lab

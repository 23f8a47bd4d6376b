#include "lab/tasks/recipe_checks.h"

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/settings/evaluation.h"
#include "deq/nn/equilibrium.h"
#include "lab/base/misuse.h"

namespace deq::lab {

void require_sensible(const Recipe& recipe) {
  refusals_as_misuse([&recipe] { return EquilibriumPlan(evaluation_options(recipe)); });
  const auto& switching = recipe.train.switching;
  require<UsageError>(!switching.blended || switching.steps > 0,
                      "train.switch.blended = true does nothing without train.switch.steps");
}

}  // namespace deq::lab

#pragma once

#include <cstdint>

#include "deq/lab/settings/recipe.h"
#include "deq/nn/equilibrium.h"

namespace deq::lab {

/// How a recipe solves its layers outside of training.
EquilibriumOptions evaluation_options(const Recipe& recipe);

/// The same within a forward budget: a solver's evaluations, an unrolled layer's steps.
EquilibriumOptions within_budget(EquilibriumOptions options, int64_t budget);

/// So many of a layer's unrolled steps, differentiated through as many of the last as before.
Unrolled unrolled_for(Unrolled how, int64_t steps);

}  // namespace deq::lab

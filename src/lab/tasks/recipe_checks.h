#pragma once

#include "deq/lab/settings/recipe.h"

namespace deq::lab {

/// Throws UsageError where parts of a recipe do not go together.
void require_sensible(const Recipe& recipe);

}  // namespace deq::lab

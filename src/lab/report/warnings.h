#pragma once

#include <string>
#include <vector>

#include "deq/lab/runs/metrics.h"
#include "deq/lab/settings/recipe.h"

namespace deq::lab {

/// What the lines of a run's metrics.jsonl give cause to worry about, trained by this recipe: a
/// sentence each, with the advice of docs/stability.md.
std::vector<std::string> warnings_about(const std::vector<Metrics>& lines, const Recipe& recipe);

}  // namespace deq::lab

#pragma once

#include <nlohmann/json.hpp>

#include "deq/lab/tasks/synthetic.h"

// The numbers behind the paper's figures 4, 5 and 9, computed with the library's own solvers.

namespace deq::lab {

/// Adds "surface", "target", "samples" and "slices" of a trained model to a run's data.
void add_synthetic_figures(const SyntheticTask& task, nlohmann::json& run);

/// Figure 4: two one-dimensional maps, one whose slope at the fixed point is below 1 in size and
/// one above, with the iterates of the plain iteration and of Broyden's method.
nlohmann::json slope_figure();

}  // namespace deq::lab

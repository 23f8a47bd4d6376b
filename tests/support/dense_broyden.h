#pragma once

#include <torch/types.h>

#include <vector>

#include "deq/solvers/solver.h"

namespace deq::test {

struct DenseBroyden {
  std::vector<double> norms;  ///< ‖g‖ of every evaluation
  int64_t rejections = 0;     ///< how often the line search shortened a step
  torch::Tensor inverse;      ///< [D, D], ≈ (J − I)⁻¹, with which the last step was made
};

/// Textbook "good" Broyden on one sample [D] with a dense inverse, for comparison, until the budget
/// is spent: tolerance and guards are not looked at.
DenseBroyden dense_broyden(const Map& f, const torch::Tensor& start, const Broyden& options);

}  // namespace deq::test

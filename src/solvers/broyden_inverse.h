#pragma once

#include <torch/types.h>

#include <vector>

#include "deq/solvers/solver.h"

// Broyden's inverse from the left (notation in broyden.cpp). For a row vector g
//
//   −g H = g (I + uₘ sₘᵀ) … (I + u₁ s₁ᵀ)(I + u₀ s₀ᵀ) = g + Σ aₖ sₖᵀ,   aₖ = vₖ·uₖ,
//   vₖ = g + Σ_{j>k} aⱼ sⱼᵀ,   vₖ·uₖ = (λₖ/λₖ₊₁ vₖ·sₖ₊₁ + (λₖ − 1) vₖ·sₖ) / ‖sₖ‖²,
//
// from the newest update to the oldest: the dots of g with all s, a recurrence over the Gram
// matrix, and one combination of all s. uₖ follows from the step after sₖ, so n steps are n − 1
// updates: the last step, with which a sample has converged, teaches nothing here.

namespace deq {

/// What a solve knows of one sample at its end.
struct BroydenUpdates {
  std::vector<double> gram{};     ///< the triangle of sᵢ·sⱼ; the newest row is not asked for
  std::vector<double> lengths{};  ///< λ; empty: all 1
  int64_t first = 0;              ///< the oldest step that the sample uses
  int64_t taken = 0;  ///< the steps it took before it stopped: later rows are not its own

  double length(int64_t step) const {
    return lengths.empty() ? 1.0 : lengths[static_cast<size_t>(step)];
  }
};

/// The coefficients of −g H on [g, s₀, s₁, …] from the dots g·sⱼ; `coefficients` has one number
/// more than there are dots.
void broyden_left_product(const BroydenUpdates& updates, const double* dots, double* coefficients);

class BroydenInverse final : public SecantInverse {
 public:
  /// The steps as slabs, and what belongs to each sample of them.
  BroydenInverse(std::vector<torch::Tensor> steps, std::vector<BroydenUpdates> samples)
      : steps_(std::move(steps)), samples_(std::move(samples)) {}

  torch::Tensor left_product(const torch::Tensor& g) const override;

 private:
  std::vector<torch::Tensor> steps_;
  std::vector<BroydenUpdates> samples_;
};

}  // namespace deq

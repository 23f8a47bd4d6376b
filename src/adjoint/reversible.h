#pragma once

#include <functional>
#include <vector>

#include "deq/adjoint/adjoint.h"
#include "deq/adjoint/options.h"

namespace deq {

struct ReversibleSteps {
  torch::Tensor z;       ///< after the last step, with gradient
  torch::Tensor f_of_z;  ///< f there, without
};

/// Called at the end of backward. The report's residuals say how far from the start the way back
/// has led, in units of the state's norm: above kLostStart a sample has diverged.
using WalkedBack = std::function<void(Report)>;
inline constexpr double kLostStart = 1e-3;

/// The steps of Reversible from `start`, a slab, which gets no gradient. `arguments` are those of f
/// beside z, as in attach_differentiable_adjoint.
ReversibleSteps reversible_steps(ExplicitMap f, const std::vector<torch::Tensor>& arguments,
                                 const torch::Tensor& start, const Reversible& how,
                                 WalkedBack walked_back);

}  // namespace deq

#pragma once

#include <vector>

#include "deq/deq.h"

namespace deq::python {

bool has_failed(const Report& report);

/// Lets backward() raise deq.ConvergenceError where the adjoint solve of this pass fails.
void raise_when_adjoint_fails(const Equilibrated& eq);

/// The leaves that get a gradient from the state, but are neither `known` nor reached through
/// `inputs` alone. Among them are the points at which functions were linearised.
std::vector<torch::Tensor> other_leaves(const Equilibrated& eq, const Inputs& inputs,
                                        const std::vector<torch::Tensor>& known);

}  // namespace deq::python

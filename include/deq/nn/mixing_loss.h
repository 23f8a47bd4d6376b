#pragma once

#include <torch/types.h>

#include "deq/solvers/options.h"
#include "deq/solvers/solver.h"

namespace deq {

/// What trains Anderson::mixing: how far `solver`'s iterates z₁, z₂, … within max_evals are from
/// z*, relative to the start z₀, later ones weighing more, and `closeness` times how far its α are
/// from least squares. z0 and z_star are slabs [B, D] with z* = f(z*). Goes back through the
/// iterates and through f at them, but gradients reach the rule's parameters only: f's, z0 and
/// z_star are constants. Tolerance, guards and restarts of the solver have no part in it.
torch::Tensor mixing_loss(const Map& f, const torch::Tensor& z0, const torch::Tensor& z_star,
                          const Anderson& solver, double closeness = 1e-3);

}  // namespace deq

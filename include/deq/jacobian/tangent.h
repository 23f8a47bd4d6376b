#pragma once

#include <torch/types.h>

#include <vector>

#include "deq/core/linearization.h"
#include "deq/core/report.h"
#include "deq/solvers/options.h"

namespace deq {

/// A tensor that f depends on, and how it moves.
struct Move {
  torch::Tensor of, along;  ///< of the same shape
};

/// How an equilibrium moves.
struct Tangent {
  torch::Tensor along;  ///< ż [B, D]
  Report report;        ///< how the solve for it went
};

/// Forward mode: where z* goes when tensors tᵢ that f depends on move along ṫᵢ, from
///   ż = Jż + Σᵢ ∂f/∂tᵢ ṫᵢ
/// by `solver`, with one product with J an evaluation. For few directions and many results it is
/// what a gradient is for many directions and one result. Needs f's graph, so the pass must have
/// been evaluated (Replay::Off), and no tᵢ may have a hook, which would run in between.
Tangent tangent(const Linearization& at, const std::vector<Move>& moves,
                const SolverOptions& solver = Broyden{.tol = {.rtol = 1e-4}});

}  // namespace deq

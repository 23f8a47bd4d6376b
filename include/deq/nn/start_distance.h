#pragma once

#include <torch/types.h>

#include "deq/nn/equilibrium.h"

// Losses that shorten solves. z* is the state that a pass found, without its graph, and distances
// are relative and squared: ‖z − z*‖² / ‖z*‖² of every sample, [B].

namespace deq {

/// Of z₀: what a predicted start is trained with (Skip-DEQ, Pal, Edelman and Rackauckas 2022). Its
/// gradients reach the start and what it is made from, not f. A given start has the graph that it
/// was given with: where that is one of another loss, the two share one backward().
torch::Tensor start_distance(const Equilibrated& equilibrium);

/// Of f(z), where z is z₀ or the state that is given: its gradients reach f's parameters and inputs
/// and z. From z₀ that is the penalty of their Skip-Reg DEQ, which needs no other network; from a
/// state part way along a solve, f learns to jump from there to the end, as consistency models do.
/// Costs one evaluation; see Equilibrated::stepped_from.
torch::Tensor step_distance(const Equilibrated& equilibrium, const State& from = {});

}  // namespace deq

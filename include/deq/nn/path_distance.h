#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <optional>

#include "deq/nn/equilibrium.h"

namespace deq {

/// How much it matters where a solve begins: ‖z′ − z*‖ / ‖z*‖ of every sample, [B], where z* is the
/// equilibrium and z′ what `solver` finds for the same f from random numbers of z*'s size. Where
/// both have converged to the same state it is of the order of their residuals; near 1 the state
/// depends on the start as much as on the input. Without gradients; for a pass in eval mode.
torch::Tensor path_distance(const Equilibrated& equilibrium, const Solver& solver,
                            std::optional<at::Generator> generator = {});

}  // namespace deq

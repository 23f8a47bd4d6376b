#pragma once

#include <cstdint>

#include "deq/lab/train/metrics.h"
#include "deq/nn/equilibrium.h"

namespace deq::lab {

/// ‖J‖_F, estimated, and ρ at the states of an equilibrium, mean over its samples, and the way of
/// its solve; for states too large for a dense Jacobian.
Metrics stability_metrics(const Equilibrated& equilibrium, int64_t seed);

}  // namespace deq::lab

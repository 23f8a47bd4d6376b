#pragma once

#include <cstdint>

#include "deq/nn/equilibrium.h"
#include "deq/train/metrics.h"

namespace deq {

/// ‖J‖_F, estimated, and ρ at the states of an equilibrium, mean over its samples, and the way of
/// its solve; for states too large for a dense Jacobian.
Metrics stability_metrics(const Equilibrated& equilibrium, int64_t seed);

}  // namespace deq

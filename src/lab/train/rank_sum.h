#pragma once

#include <torch/types.h>

#include <span>

#include "deq/lab/distributed/world.h"

namespace deq::lab {

/// Adds up a row of numbers over all ranks, in place, with one exchange.
void sum_over_ranks(std::span<double> row, World& world, torch::Device device);

}  // namespace deq::lab

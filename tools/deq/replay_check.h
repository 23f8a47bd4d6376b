#pragma once

#include <torch/types.h>

namespace deq::lab::cli {

/// Trains small models for some steps, whose replays are checked against their evaluation. Throws
/// where they differ.
void check_replays(const torch::Device& device);

}  // namespace deq::lab::cli

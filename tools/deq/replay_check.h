#pragma once

#include <torch/types.h>

#include <string>

#include "replay/recordings.h"

namespace deq::lab::cli {

/// Trains small models for some steps, whose replays are checked against their evaluation, and says
/// what came of it. Throws where they differ, and where this device should replay and did not.
std::string check_replays(const torch::Device& device, torch::Dtype type = torch::kFloat32);

/// The same for what was recorded meanwhile.
std::string replay_outcome(const torch::Device& device, const RecordingCounts& before,
                           const RecordingCounts& after);

}  // namespace deq::lab::cli

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "deq/lab/runs/metrics.h"
#include "deq/lab/settings/recipe.h"
#include "lab/train/training_state.h"

// What a run folder lacks. A kill takes the steps after the last checkpoint, and never a line of an
// earlier step. More is missing where somebody took it away.

namespace deq::lab {

/// Throws Error where there are metrics and no checkpoint: to begin again would overwrite them.
void require_checkpoints(const std::filesystem::path& run, const std::vector<Metrics>& lines);

/// Whether there is an evaluation of this step.
bool is_evaluated(const std::vector<Metrics>& lines, int64_t step);

/// A sentence where metrics end before the checkpoint that a training goes on from.
std::string lost_lines(const std::filesystem::path& run, const std::vector<Metrics>& lines,
                       const TrainingState& state);

/// A sentence where metrics go further than the checkpoint, and so far that there was a later one.
/// Going on removes these lines: a copy of all of them is made, which the sentence names.
std::string lost_checkpoints(const std::filesystem::path& run, const std::vector<Metrics>& lines,
                             const TrainingState& state, const TrainConfig& train);

}  // namespace deq::lab

#pragma once

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "deq/lab/runs/run.h"
#include "deq/lab/tasks/experiment.h"

namespace deq::lab {

/// The experiment of a run, its task with the trained weights.
struct LoadedRun {
  Experiment experiment;
  std::shared_ptr<Task> task;
  std::vector<std::string> warnings;  ///< of the data; checkpoints that were passed over, and why
};

/// Throws UsageError where the folder is missing or holds no run, Error where no checkpoint is
/// whole or where they do not fit the configuration.
LoadedRun load_run(const std::filesystem::path& run, torch::Device device = torch::kCPU,
                   WhichCheckpoint which = WhichCheckpoint::Newest,
                   const std::vector<std::string>& overrides = {});

}  // namespace deq::lab

#pragma once

#include <filesystem>

#include "deq/train/synthetic.h"

namespace deq {

/// Where things lie in a run folder.
std::filesystem::path config_file(const std::filesystem::path& run);
std::filesystem::path metrics_file(const std::filesystem::path& run);
std::filesystem::path final_checkpoint(const std::filesystem::path& run);

/// The experiment of a finished run with its trained weights. Throws UsageError where the folder is
/// missing or holds no finished run, Error where its checkpoint is damaged.
SyntheticExperiment load_run(const std::filesystem::path& run, torch::Device device = torch::kCPU);

}  // namespace deq

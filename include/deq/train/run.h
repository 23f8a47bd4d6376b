#pragma once

#include <filesystem>
#include <string_view>

#include "deq/train/experiment.h"

namespace deq {

/// Where things lie in a run folder.
std::filesystem::path config_file(const std::filesystem::path& run);
std::filesystem::path metrics_file(const std::filesystem::path& run);
std::filesystem::path checkpoint_folder(const std::filesystem::path& run);

/// What a checkpoint's tensors that are not the model's begin with.
inline constexpr std::string_view kOptimiserPrefix = "optimiser/";

enum class WhichCheckpoint { Newest, Best };

/// Throws UsageError where the folder is missing or holds no run.
void require_run(const std::filesystem::path& run);

/// Removes what processes that were killed left half-written in the run. Nobody may be training it.
void remove_leftovers(const std::filesystem::path& run);

/// The experiment of a run, its task with the trained weights.
struct LoadedRun {
  Experiment experiment;
  std::shared_ptr<Task> task;
  std::vector<std::string> warnings;  ///< checkpoints that were passed over, and why
};

/// Throws UsageError where the folder is missing or holds no run, Error where no checkpoint is
/// whole or where they do not fit the configuration.
LoadedRun load_run(const std::filesystem::path& run, torch::Device device = torch::kCPU,
                   WhichCheckpoint which = WhichCheckpoint::Newest,
                   const std::vector<std::string>& overrides = {});

}  // namespace deq

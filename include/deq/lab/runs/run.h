#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "deq/lab/runs/metrics.h"

namespace deq::lab {

/// Where things lie in a run folder.
std::filesystem::path config_file(const std::filesystem::path& run);
std::filesystem::path metrics_file(const std::filesystem::path& run);
std::filesystem::path checkpoint_folder(const std::filesystem::path& run);

/// The lines of a run's metrics.jsonl; none where it has none.
std::vector<Metrics> metrics_lines(const std::filesystem::path& run);

/// What a checkpoint's tensors that are not the model's begin with.
inline constexpr std::string_view kOptimiserPrefix = "optimiser/";
inline constexpr std::string_view kCarriedPrefix = "carried/";
/// Where the model's own names hold the mean of its weights, the weights that training goes on
/// with.
inline constexpr std::string_view kTrainedPrefix = "trained/";
/// Whether a tensor of a checkpoint is the model's, under its own name.
bool is_of_model(std::string_view name);

enum class WhichCheckpoint { Newest, Best };

/// Throws UsageError where the folder is missing or holds no run.
void require_run(const std::filesystem::path& run);

/// Removes what processes that were killed left half-written in the run. Nobody may be training it.
void remove_leftovers(const std::filesystem::path& run);

/// What every checkpoint of a run says about itself.
std::map<std::string, std::string> checkpoint_metadata(const std::string& config,
                                                       const std::vector<std::string>& classes,
                                                       const std::string& sample_form = {});

/// The names of the classes that it gives; none where whoever wrote it did not know them.
std::vector<std::string> classes_in(const std::map<std::string, std::string>& metadata);

/// The form of the samples that it gives, or nothing.
std::string sample_form_in(const std::map<std::string, std::string>& metadata);

/// Throws Error where both forms of samples are known, and differ.
void require_sample_form(const std::string& checkpoint, const std::string& data,
                         const std::string& what);

/// Throws Error where a checkpoint's classes are known and others than the data's are now, or in
/// another order: its outputs would be taken for something else. `what` names the checkpoint.
void require_classes(const std::vector<std::string>& checkpoint,
                     const std::vector<std::string>& data, const std::string& what);

/// What using a model takes of a checkpoint: all except the state of its training.
struct RunCheckpoint {
  std::filesystem::path path;
  std::map<std::string, torch::Tensor> weights;
  std::vector<std::string> classes;   ///< by name; none where whoever wrote it did not know them
  std::string sample_form;            ///< or nothing
  std::vector<std::string> warnings;  ///< checkpoints that were passed over, and why
};

/// Throws Error where no checkpoint is whole.
RunCheckpoint read_run_checkpoint(const std::filesystem::path& run, WhichCheckpoint which);

}  // namespace deq::lab

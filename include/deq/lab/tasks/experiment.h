#pragma once

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deq/lab/settings/recipe.h"
#include "deq/lab/train/task.h"
#include "deq/models/transformer/tensor_parallel.h"

namespace deq::lab {

/// What a configuration file describes.
struct Experiment {
  std::string name;  ///< as the key `experiment` has it
  Recipe recipe;
  std::string config;                                             ///< the effective configuration
  std::function<std::shared_ptr<Task>(torch::Device)> make_task;  ///< reads data, draws weights

  /// The same where the processes of a group hold the model in parts; empty where they cannot.
  std::function<std::shared_ptr<Task>(torch::Device, std::shared_ptr<models::TensorParallel>)>
      make_part{};
  /// Then throws Error unless so many processes can.
  std::function<void(int64_t)> require_divisible{};
};

/// The file with each override "key=value" applied in turn, or a ConfigError.
Experiment read_experiment(const std::filesystem::path& path,
                           const std::vector<std::string>& overrides = {});

}  // namespace deq::lab

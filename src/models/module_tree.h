#pragma once

#include <torch/nn/module.h>

#include <string>

// Modules and parameters under the dotted names that published checkpoints have.

namespace deq::models {

/// Where a dotted path ends: the module that holds its last name.
struct PathEnd {
  torch::nn::Module* parent;
  std::string name;
};

/// Makes plain modules on the way where there are none yet.
PathEnd end_of_path(torch::nn::Module& root, const std::string& path);

torch::Tensor register_parameter_at(torch::nn::Module& root, const std::string& path,
                                    const torch::Tensor& value);

}  // namespace deq::models

#pragma once

#include <torch/nn/module.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace deq::lab {

struct ConvertOptions {
  /// What the names of the state dict have before the model's, e.g. "module.". Without it, first
  /// components that all names share are taken off where more names fit the model then.
  std::optional<std::string> prefix{};
  /// Names under which a state dict may repeat one of the model's, and that one: where the state
  /// dict lacks the latter, the former serves.
  std::vector<std::pair<std::string, std::string>> tied{};
};

/// A state dict as another program saved it, fitted to a model by name.
struct Conversion {
  /// All that the model has, in its own types; what the state dict lacks as the model has it.
  std::map<std::string, torch::Tensor> tensors;
  std::string prefix;                    ///< what was taken off the names
  std::vector<std::string> missing;      ///< names of the model that the state dict lacks
  std::vector<std::string> superfluous;  ///< names of the state dict that the model lacks
};

/// Throws Error where no name fits, or where a tensor has another shape than the model's, or whole
/// numbers in place of real ones, or where tied names hold different numbers. `what` names the
/// state dict in messages. The model is not changed.
Conversion convert_state_dict(const std::map<std::string, torch::Tensor>& state_dict,
                              const torch::nn::Module& model, const std::string& what,
                              const ConvertOptions& options = {});

/// Names that differ only in numbers, on one line with a star for each number: a network lacks
/// "20 × layer*.*.bn*.num_batches_tracked", not twenty things.
std::vector<std::string> grouped_names(const std::vector<std::string>& names);

}  // namespace deq::lab

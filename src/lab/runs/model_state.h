#pragma once

#include <torch/nn/module.h>

#include <map>
#include <string>

namespace deq::lab {

/// The model's own parameters and buffers by name: what is written into them counts.
std::map<std::string, torch::Tensor> model_tensors(const torch::nn::Module& model);

/// Moves the model to a device, its real numbers in this type; counters stay whole numbers.
void move_model(torch::nn::Module& model, torch::Device device, torch::ScalarType type);

/// Overwrites `targets` with the tensors of the same names. Throws Error, before anything changes,
/// when one is missing, superfluous or of another shape; `what` names them: "the checkpoint".
void restore_tensors(const std::map<std::string, torch::Tensor>& targets,
                     const std::map<std::string, torch::Tensor>& sources, const std::string& what);

}  // namespace deq::lab

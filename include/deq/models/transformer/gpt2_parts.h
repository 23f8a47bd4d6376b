#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

#include "deq/models/transformer/tensor_parallel.h"

// The state of a GPT-2 in parts and whole, by the names of its parameters. A name may have
// something in front, so that an optimiser's state goes the same ways:
// "exp_avg/layers.0.inner.weight".

namespace deq::models {

using NamedTensors = std::map<std::string, torch::Tensor>;

/// Whether each process of a group holds a part of the tensor with this name, not all of it.
bool gpt2_in_parts(const std::string& name, const torch::Tensor& tensor);

/// What one process holds of the state of a whole model; copies where it is a part.
NamedTensors cut_gpt2(const NamedTensors& whole, const TensorPart& part);

/// The state of the whole model, from those of all processes in the order of their ranks.
NamedTensors join_gpt2(const std::vector<NamedTensors>& parts);

/// The same where every process has its own part and gets the whole; all of them call it.
NamedTensors join_gpt2(const NamedTensors& part, TensorParallel& group);

}  // namespace deq::models

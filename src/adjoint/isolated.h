#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

namespace deq {

using TensorMap =
    std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>& arguments)>;

/// v ∂map/∂(arguments, leaves): for each, where all of them vary independently. autograd alone
/// takes an argument that depends on a leaf for a function of it. `leaves` are those of the map's
/// graph on arguments without a history. Can be differentiated again, to any order, as a function
/// of arguments, v and leaves.
std::vector<torch::Tensor> isolated_gradients(const TensorMap& map,
                                              const std::vector<torch::Tensor>& arguments,
                                              const std::vector<torch::Tensor>& v,
                                              const std::vector<torch::Tensor>& leaves);

}  // namespace deq

#pragma once

#include <torch/types.h>

#include <vector>

namespace deq {

/// The leaves that the graph of `value` reaches, except by way of `stops`.
std::vector<torch::Tensor> graph_leaves(const torch::Tensor& value,
                                        const std::vector<torch::Tensor>& stops);

}  // namespace deq

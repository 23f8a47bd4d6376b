#pragma once

#include <torch/types.h>

#include <vector>

namespace deq {

/// Throws where a gradient of one of these tensors, which is computed in parts, would run hooks
/// for each of them. `where` says where there must be none.
void require_no_hooks(const std::vector<torch::Tensor>& leaves, const char* where);

/// The leaves that the graph of `value` reaches, except by way of `stops`.
std::vector<torch::Tensor> graph_leaves(const torch::Tensor& value,
                                        const std::vector<torch::Tensor>& stops);

}  // namespace deq

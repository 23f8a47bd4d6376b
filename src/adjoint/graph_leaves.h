#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace deq {

/// Throws where a gradient of one of these tensors, which is computed in parts, would run hooks
/// for each of them. `where` says where there must be none.
void require_no_hooks(const std::vector<torch::Tensor>& leaves, const char* where);

/// Where a function's evaluation begins: what autograd notes from now on, on this thread, is its.
uint64_t graph_begins();

/// Whether the graph of `value` may lead to anything but `z`, a leaf. A function that is not one of
/// torch's own, such as a checkpoint, may reach what the graph does not show.
bool leads_beyond(const torch::Tensor& value, const torch::Tensor& z);

/// What the graph of `value` reaches, except by way of `stops`: leaves, and stand-ins for tensors
/// with a history from before `begin`, which it uses but did not make. A stand-in has its tensor's
/// shape and place in the graph, so that gradients can be taken for it and given to it, not its
/// numbers.
std::vector<torch::Tensor> graph_leaves(const torch::Tensor& value,
                                        const std::vector<torch::Tensor>& stops, uint64_t begin);

/// Throws where the graph of `value`, the same function evaluated again at `arguments`, leads to
/// leaves that are not among `leaves`: their gradients would be lost.
void require_same_leaves(const torch::Tensor& value, const std::vector<torch::Tensor>& arguments,
                         const std::vector<torch::Tensor>& leaves);

}  // namespace deq

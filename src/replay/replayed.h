#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

namespace deq {

/// What a replayed value's backward does: from its gradient to those of the leaves. They are copied
/// before anything else is replayed.
using LeafGradients = std::function<std::vector<torch::Tensor>(const torch::Tensor&)>;

/// Whether a value that depends on them gets a graph now.
bool need_graph(const std::vector<torch::Tensor>& leaves);

/// A value that was computed elsewhere, as a function of `leaves`. It can be differentiated once,
/// and again where backward() retains the graph; after that `gradients` is destroyed.
torch::Tensor replayed(const std::vector<torch::Tensor>& leaves, const torch::Tensor& value,
                       LeafGradients gradients);

}  // namespace deq

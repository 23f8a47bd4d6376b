#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

namespace deq {

/// What a replayed value's backward does: from its gradient to those of the leaves.
using LeafGradients = std::function<std::vector<torch::Tensor>(const torch::Tensor&)>;

/// A value that was computed elsewhere, as a function of `leaves`. It can be differentiated once.
torch::Tensor replayed(const std::vector<torch::Tensor>& leaves, const torch::Tensor& value,
                       LeafGradients gradients);

}  // namespace deq

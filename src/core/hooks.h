#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace deq {

/// Whether a gradient of this tensor, a part of one too, would run a hook. One that was removed
/// counts: torch keeps its place.
inline bool has_hooks(const torch::Tensor& tensor) {
  const auto& node = tensor.grad_fn();
  return !torch::autograd::impl::hooks(tensor).empty() ||
         (node != nullptr && !node->tensor_pre_hooks().empty());
}

}  // namespace deq

#pragma once

#include <torch/nn/modules/normalization.h>

#include "kernels/norms/group_norm.h"

namespace deq::models {

/// GN(x), plus `addend` where there is one; in the type of x where none is named, in new memory
/// where there is no target.
inline torch::Tensor normed(const torch::nn::GroupNorm& norm, const torch::Tensor& x,
                            const torch::Tensor& addend = {}, bool relu = false,
                            std::optional<torch::ScalarType> type = {},
                            const torch::Tensor& target = {}) {
  return kernels::group_norm(x, norm->weight, norm->bias, addend,
                             {.groups = norm->options.num_groups(),
                              .eps = norm->options.eps(),
                              .relu = relu,
                              .type = type,
                              .target = target});
}

/// ReLU(GN(x)), or ReLU(GN(x) + addend).
inline torch::Tensor normed_relu(const torch::nn::GroupNorm& norm, const torch::Tensor& x,
                                 const torch::Tensor& addend = {}) {
  return normed(norm, x, addend, /*relu=*/true);
}

}  // namespace deq::models

#pragma once

#include <torch/nn/modules/normalization.h>

#include "kernels/group_norm.h"

namespace deq {

/// GN(x), plus `addend` where there is one.
inline torch::Tensor normed(const torch::nn::GroupNorm& norm, const torch::Tensor& x,
                            const torch::Tensor& addend = {}, bool relu = false) {
  return kernels::group_norm(
      x, norm->weight, norm->bias, addend,
      {.groups = norm->options.num_groups(), .eps = norm->options.eps(), .relu = relu});
}

/// ReLU(GN(x)), or ReLU(GN(x) + addend).
inline torch::Tensor normed_relu(const torch::nn::GroupNorm& norm, const torch::Tensor& x,
                                 const torch::Tensor& addend = {}) {
  return normed(norm, x, addend, /*relu=*/true);
}

}  // namespace deq

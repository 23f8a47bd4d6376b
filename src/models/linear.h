#pragma once

#include <torch/nn/modules/linear.h>

#include "kernels/common/affine.h"

namespace deq::models {

/// The layer's map by libdeq's own products, where these are faster than torch's.
inline torch::Tensor linear(const torch::nn::Linear& layer, const torch::Tensor& x) {
  return kernels::linear(x, layer->weight, layer->bias);
}

}  // namespace deq::models

#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <optional>

#include "kernels/recurrence/forget_pool.h"

namespace deq::models {

struct QrnnLayerSizes {
  int64_t in = 1, out = 1;
  int64_t window = 1;  ///< inputs that a position sees: its own and those before it
};

/// y = W (xₜ, xₜ₋₁, …) + b, pooled over time. A part of W is dropped in training mode.
class QrnnLayer : public torch::nn::Module {
 public:
  QrnnLayer(const QrnnLayerSizes& sizes, double weight_dropout,
            const std::optional<at::Generator>& generator);

  /// h [B, T, out] and the last state [B, out] of inputs [B, window − 1 + T, in] and the state
  /// before them; undefined: zero.
  kernels::ForgetPool forward(const torch::Tensor& inputs, const torch::Tensor& state);

  const QrnnLayerSizes& sizes() const { return sizes_; }

 private:
  QrnnLayerSizes sizes_;
  double weight_dropout_;
  torch::Tensor weight_, bias_;
};

}  // namespace deq::models

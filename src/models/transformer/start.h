#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>

#include "deq/models/transformer/options.h"
#include "models/transformer/linear.h"

namespace deq::models {

/// A start predicted from the injection, position by position: with LN the layer norm,
///   z₀ = B ReLU(A LN(u) + a) + b,
/// where B and b are zero at first: then it is the usual start.
class TransformerStart : public torch::nn::Module {
 public:
  TransformerStart(const TransformerOptions& options,
                   const std::optional<at::Generator>& generator);

  /// [B, q, d_model] for an injection [B, q, 3·heads·d_head].
  torch::Tensor predict(const torch::Tensor& injection) const;

 private:
  std::shared_ptr<TransformerLinear> inner_, outer_;
};

}  // namespace deq::models

#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <optional>

#include "deq/models/transformer/transformer_xl.h"
#include "kernels/attention/relative_attention.h"

namespace deq::models {

/// One layer: attention over memory and input, then a feed-forward part, both with a residual.
class TransformerXlLayer : public torch::nn::Module {
 public:
  TransformerXlLayer(const TransformerXlOptions& options,
                     const std::optional<at::Generator>& generator);

  /// [B, q, d_model] for x [B, q, d_model], a memory [B, m, d_model] or undefined, and encoded
  /// distances [m + q, d_model]. Of `terms`, the layer adds positions and dropout.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& memory,
                        const torch::Tensor& distances, kernels::AttentionTerms terms);

 private:
  torch::Tensor attended(const torch::Tensor& x, const torch::Tensor& memory,
                         const torch::Tensor& distances, kernels::AttentionTerms& terms);
  torch::Tensor fed_forward(const torch::Tensor& x);
  torch::Tensor dropped(const torch::Tensor& x) const;

  int64_t heads_, d_head_;
  bool pre_ln_;
  double dropout_, attention_dropout_;
  torch::nn::Linear qkv_{nullptr}, positions_{nullptr}, out_{nullptr};
  torch::nn::LayerNorm attention_norm_{nullptr};
  torch::nn::Linear inner_{nullptr}, outer_{nullptr};
  torch::nn::LayerNorm feed_forward_norm_{nullptr};
};

}  // namespace deq::models

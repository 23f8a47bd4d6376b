#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

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

/// Positions that ask, and those that they may look at: a memory's and themselves.
struct AttentionSpan {
  int64_t length = 0, keys = 0;
};

/// What all layers of a model share of their attention.
kernels::AttentionTerms shared_terms(const torch::Tensor& content_bias,
                                     const torch::Tensor& position_bias, int64_t horizon,
                                     const AttentionSpan& span, torch::Device device);

using TransformerXlLayers = std::vector<std::shared_ptr<TransformerXlLayer>>;

/// `options.layers` of them, as <list>.0, <list>.1, … of the owner.
TransformerXlLayers register_layers(torch::nn::Module& owner, const std::string& list,
                                    const TransformerXlOptions& options,
                                    const std::optional<at::Generator>& generator);

/// The memory of a model's layers, one after the other.
class LayerMemory {
 public:
  explicit LayerMemory(const TransformerXlMemory& before)
      : before_(before), after_{.capacity = before.capacity} {}

  /// The next layer's past, undefined where it has none. Its input x is remembered after it.
  torch::Tensor past_of(const torch::Tensor& x);

  /// The next layers are to remember nothing.
  void skip(size_t layers) { layer_ += layers; }

  /// What the layers so far remember.
  const TransformerXlMemory& after() const { return after_; }

 private:
  TransformerXlMemory before_, after_;
  size_t layer_ = 0;
};

torch::Tensor through_layers(const TransformerXlLayers& layers, torch::Tensor x,
                             const torch::Tensor& distances, const kernels::AttentionTerms& terms,
                             LayerMemory& memory);

}  // namespace deq::models

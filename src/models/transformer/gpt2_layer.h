#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <optional>

#include "deq/models/transformer/gpt2_options.h"
#include "models/transformer/tensor_parallel.h"

namespace deq::models {

/// One pre-LN layer: causal attention, then a feed-forward part, both with a residual. Where a
/// group shares it, each process has some of the heads and some of the inner features: the rows of
/// the weights before them and the columns of those after them.
class Gpt2Layer : public torch::nn::Module {
 public:
  Gpt2Layer(const Gpt2Options& options, const std::optional<at::Generator>& generator,
            TensorGroup group);

  /// [B, T, d_model] for x of that shape. `key` decides what a process draws for its heads; without
  /// it, torch's own generator does.
  torch::Tensor forward(const torch::Tensor& x, std::optional<uint64_t> key);

 private:
  torch::Tensor attended(const torch::Tensor& x, std::optional<uint64_t> key);
  torch::Tensor fed_forward(const torch::Tensor& x);
  /// What a part of the layer adds: the last product over all processes, its bias once.
  torch::Tensor added(const torch::Tensor& features, torch::nn::Linear& out) const;

  int64_t d_head_;
  double dropout_, attention_dropout_;
  TensorGroup group_;
  torch::nn::LayerNorm attention_norm_{nullptr}, feed_forward_norm_{nullptr};
  torch::nn::Linear qkv_{nullptr}, attention_out_{nullptr}, inner_{nullptr}, outer_{nullptr};
};

}  // namespace deq::models

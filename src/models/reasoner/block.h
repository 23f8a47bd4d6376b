#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "deq/models/reasoner/options.h"
#include "models/reasoner/parameters.h"

namespace deq::models {

/// x / √(mean x² + 1e-5) along a dimension, without a gain.
torch::Tensor rms_norm(const torch::Tensor& x, int64_t dim);

/// down(silu(gate) ⊙ up) with [gate, up] = gate_up(x), of matrices without biases, along one of the
/// two last dimensions of x.
class SwiGlu : public torch::nn::Module {
 public:
  /// `width` numbers in and out.
  SwiGlu(int64_t width, const ReasonerOptions& options, const OptionalGenerator& generator);

  torch::Tensor over_features(const torch::Tensor& x) const;
  torch::Tensor over_tokens(const torch::Tensor& x) const;

 private:
  torch::Tensor gate_up_, down_;
};

/// Each token looks at all, at heads of features that are turned by its position.
class RotaryAttention : public torch::nn::Module {
 public:
  RotaryAttention(const ReasonerOptions& options, const OptionalGenerator& generator);

  torch::Tensor forward(const torch::Tensor& x) const;

 private:
  int64_t heads_;
  torch::Tensor qkv_, out_, cosines_, sines_;
};

/// Tokens mixed, then each looked at by itself; a norm after each of the two sums.
class ReasonerLayer : public torch::nn::Module {
 public:
  ReasonerLayer(const ReasonerOptions& options, const OptionalGenerator& generator);

  torch::Tensor forward(torch::Tensor h) const;

 private:
  std::shared_ptr<SwiGlu> tokens_, features_;
  std::shared_ptr<RotaryAttention> attention_;  // in place of the former
};

/// The network that a reasoner applies again and again.
class ReasonerBlock : public torch::nn::Module {
 public:
  ReasonerBlock(const ReasonerOptions& options, const OptionalGenerator& generator);

  torch::Tensor forward(torch::Tensor h) const;

 private:
  std::vector<std::shared_ptr<ReasonerLayer>> layers_;
};

}  // namespace deq::models

#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <span>
#include <vector>

#include "deq/models/reasoner/options.h"
#include "kernels/feed_forward/swiglu.h"
#include "models/reasoner/parameters.h"

namespace deq::models {

/// Matrices in the order in which a block registers them: its own, or the same in another type.
using Matrices = std::span<const torch::Tensor>;

/// The matrices of down(silu(gate) ⊙ up) with [gate, up] = gate_up(x).
class SwiGlu : public torch::nn::Module {
 public:
  static constexpr size_t kMatrices = 2;

  /// `width` numbers in and out.
  SwiGlu(int64_t width, const ReasonerOptions& options, const OptionalGenerator& generator);
};

/// Each token looks at all, at heads of features that are turned by its position.
class RotaryAttention : public torch::nn::Module {
 public:
  static constexpr size_t kMatrices = 2;

  RotaryAttention(const ReasonerOptions& options, const OptionalGenerator& generator);

  torch::Tensor forward(const torch::Tensor& x, Matrices matrices) const;

 private:
  int64_t heads_;
  torch::Tensor cosines_, sines_;
};

/// Tokens mixed, then each looked at by itself; a norm after each of the two sums.
class ReasonerLayer : public torch::nn::Module {
 public:
  static constexpr size_t kMatrices = SwiGlu::kMatrices + SwiGlu::kMatrices;
  static_assert(RotaryAttention::kMatrices == SwiGlu::kMatrices);

  ReasonerLayer(const ReasonerOptions& options, const OptionalGenerator& generator);

  torch::Tensor forward(torch::Tensor h, Matrices matrices, kernels::Between between) const;

 private:
  std::shared_ptr<RotaryAttention> attention_;  // none where a SwiGLU mixes the tokens
};

/// The network that a reasoner applies again and again.
class ReasonerBlock : public torch::nn::Module {
 public:
  ReasonerBlock(const ReasonerOptions& options, const OptionalGenerator& generator);

  /// In this type, laid out as a GPU multiplies them fastest; on the tape.
  std::vector<torch::Tensor> matrices(torch::ScalarType type) const;

  torch::Tensor forward(torch::Tensor h, Matrices matrices) const;

 private:
  std::vector<std::shared_ptr<ReasonerLayer>> layers_;
};

}  // namespace deq::models

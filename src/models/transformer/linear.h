#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <optional>

#include "deq/nn/weight_norm.h"

namespace deq::models {

struct TransformerLinearOptions {
  int64_t in = 1;
  int64_t out = 1;
  bool bias = true;
  bool pointwise_convolution = false;  ///< the weight is published as [out, in, 1], not [out, in]
  bool normalised = false;
  double spread = 0;  ///< of the weight at the start; < 0: uniform within ±1/√in, as torch's layers
};

/// An affine map of features, its weight possibly normalised. Biases start at 0.
class TransformerLinear : public torch::nn::Module {
 public:
  TransformerLinear(const TransformerLinearOptions& options,
                    const std::optional<at::Generator>& generator);

  /// What features are groups of.
  struct Groups {
    int64_t in = 1, out = 1;
  };
  /// [in, out], to multiply with from the right, or larger where a GPU wants every group of
  /// features aligned: see kernels/common/tensor_cores.h.
  torch::Tensor matrix(const Groups& groups) const;
  torch::Tensor matrix() const { return matrix({}); }
  const torch::Tensor& bias() const { return bias_; }
  /// The bias in the type and width of the matrix. Autocast would do that too, but keeps its casts
  /// of parameters: those from a step without a tape would stand in for those on it.
  torch::Tensor bias_for(const torch::Tensor& matrix) const;

 private:
  LayerWeight weight_;
  torch::Tensor bias_;
};

}  // namespace deq::models

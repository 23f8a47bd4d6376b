#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

namespace deq::models {

/// An affine map or a layer norm that is applied to a few rows again and again, as in a recurrence.
/// Its parameters' gradients are computed once, from the rows of all applications together, where
/// autograd alone would compute and add up those of each. Made anew for every pass, in whose
/// precision it computes. It cannot be differentiated twice.
class Repeated {
 public:
  /// x ↦ x Wᵀ + b for W [out, in].
  static Repeated linear(const torch::Tensor& weight, const torch::Tensor& bias);
  /// Of the last dimension.
  static Repeated layer_norm(const torch::Tensor& weight, const torch::Tensor& bias);

  /// […, features]
  torch::Tensor operator()(const torch::Tensor& x) const;

 private:
  enum class Kind { Linear, LayerNorm };
  Repeated(Kind kind, const torch::Tensor& weight, const torch::Tensor& bias);

  Kind kind_;
  torch::Tensor weight_, bias_;
  torch::Tensor token_;       // stands for the parameters in the graph of every application
  c10::IValue applications_;  // what they leave in a backward pass
};

}  // namespace deq::models

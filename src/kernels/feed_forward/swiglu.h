#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/common/over.h"

// A SwiGLU without biases, along features or tokens,
//
//   y = D·gate(G·x),
//
// x [B, tokens, features], G [2·inner, n], D [n, inner], n the features or the tokens of x; gate()
// is that of gate.h. Of what is between the products a tape keeps G·x at most. Along the tokens
// every sample is multiplied as it lies, without a transposed copy of it, and the gradients of G
// and D are sums over the samples' own.

namespace deq::kernels {

/// What a tape keeps of what is between the products.
enum class Between {
  Kept,      ///< G·x
  MadeAgain  ///< nothing: backward multiplies once more
};

/// [B, tokens, features]. Differentiable as often as wanted, for x and weights.
at::Tensor swiglu(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down, Over over,
                  Between between = Between::Kept);

/// The gradient of M, where y = M·x along features or tokens of x and g is ∂y. Without a graph.
at::Tensor matrix_gradient(const at::Tensor& g, const at::Tensor& x, Over over);

namespace reference {
at::Tensor swiglu(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down,
                  Over over);
}  // namespace reference

}  // namespace deq::kernels

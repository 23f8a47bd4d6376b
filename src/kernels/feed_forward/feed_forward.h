#pragma once

#include <ATen/core/Tensor.h>

// The feed-forward part of a Transformer's layer, in one operation:
//
//   y = relu((x·W + b) ⊙ m)·V + c,
//
// x [B, q, in], W [in, inner], V [inner, out]; m ≥ 0 a mask [B, 1, inner] or undefined. What is
// between the two products is the widest tensor of a step: in a solve it never leaves the cache.

namespace deq::kernels {

struct FeedForwardWeights {
  at::Tensor inner, inner_bias, outer, outer_bias;
};

/// [B, q, out]. Differentiable as often as wanted; for x and weights, not for the mask.
at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights,
                        const at::Tensor& mask);

/// Gradients that are not wanted are undefined.
struct FeedForwardGradients {
  at::Tensor for_x{}, for_inner{}, for_inner_bias{}, for_outer{}, for_outer_bias{};
};

namespace reference {
at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights,
                        const at::Tensor& mask);
}  // namespace reference

namespace cpu {
/// Whether the kernel is the faster way: float32, and enough positions for every thread to multiply
/// some of them with the whole of the weights.
bool feed_forward_serves(const at::Tensor& x, const FeedForwardWeights& weights);

/// x and mask as above. `hidden` [B·q, inner] takes what is between the products, where defined.
at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights,
                        const at::Tensor& mask, const at::Tensor& hidden);

/// For g [B, q, out]; those for the weights only `with_weights`.
FeedForwardGradients feed_forward_backward(const at::Tensor& g, const at::Tensor& x,
                                           const at::Tensor& hidden,
                                           const FeedForwardWeights& weights,
                                           const at::Tensor& mask, bool with_weights);
}  // namespace cpu

/// The same on a GPU in bfloat16 or float32: the ReLU is part of the first product, and what
/// follows it happens in place.
namespace tensor_cores {
bool feed_forward_serves(const at::Tensor& x, const FeedForwardWeights& weights);
at::Tensor feed_forward(const at::Tensor& x, const FeedForwardWeights& weights,
                        const at::Tensor& mask, at::Tensor& hidden);
FeedForwardGradients feed_forward_backward(const at::Tensor& g, const at::Tensor& x,
                                           const at::Tensor& hidden,
                                           const FeedForwardWeights& weights,
                                           const at::Tensor& mask, bool with_weights);
}  // namespace tensor_cores

}  // namespace deq::kernels

#pragma once

#include <ATen/core/Tensor.h>

// What a residual block adds to its input, without what follows:
//
//   y = relu(GN(x ⋆ w₁)) ⋆ w₂.
//
// Between the convolutions the images are at their widest. The CPU kernel takes sample by sample,
// so that they stay in a thread's cache, forward and on the way back to x.

namespace deq::kernels {

struct BranchWeights {
  at::Tensor first{};  ///< [inner, in, k, k]
  at::Tensor norm_weight{}, norm_bias{};
  int64_t groups = 1;
  double eps = 1e-5;
  at::Tensor second{};  ///< [out, inner, k, k]
};

/// Differentiable as often as wanted.
at::Tensor residual_branch(const at::Tensor& x, const BranchWeights& weights);

namespace reference {
/// The same by convolution() and group_norm().
at::Tensor residual_branch(const at::Tensor& x, const BranchWeights& weights);
}  // namespace reference

namespace cpu {

/// Winograd for both convolutions, samples large enough for it, and enough of them.
bool residual_branch_serves(const at::Tensor& x, const BranchWeights& weights);

/// y, and what a backward reads, where it is kept: x ⋆ w₁, the ReLU's result, and the groups' mean
/// and reciprocal standard deviation.
struct BranchOutputs {
  at::Tensor y{}, inner{}, hidden{}, mean{}, rstd{};
};
BranchOutputs residual_branch(const at::Tensor& x, const BranchWeights& weights, bool keep);

/// ∂x for g = ∂y, at what was kept.
at::Tensor residual_branch_backward(const at::Tensor& g, const BranchOutputs& at,
                                    const BranchWeights& weights);

}  // namespace cpu

}  // namespace deq::kernels

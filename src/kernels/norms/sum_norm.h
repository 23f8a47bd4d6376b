#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "kernels/common/over.h"

// The RMS norm of a sum, as it follows every part of a residual network that norms afterwards:
//
//   y = r ⊙ s,  s = a + b,  r = 1/√(mean s² + 1e-5),
//
// means over the features of a token (the last dimension) or over the tokens of a sample (the last
// but one). Forward reads a and b once and writes y and r; s is never made. Backward needs y and r
// only:
//
//   ∂a = ∂b = ∂s = r (∂y − y mean(∂y ⊙ y)).
//
// Both are operators, deq::sum_norm and deq::sum_norm_backward: those of the CPU serve float32 and
// float64, those of the CUDA plugin bfloat16 too, with sums and r in float32. Sums have a fixed
// order.

namespace deq::kernels {

/// a and b [B, tokens, features] of one type. Differentiable as often as wanted.
at::Tensor sum_norm(const at::Tensor& a, const at::Tensor& b, Over over);

/// ∂s without a graph, where sum_norm_serves().
at::Tensor sum_norm_backward(const at::Tensor& g, const at::Tensor& y, const at::Tensor& r,
                             Over over);

/// Whether there are kernels for these; otherwise torch's operations serve.
bool sum_norm_serves(const at::Tensor& a, const at::Tensor& b, Over over);

/// y, and r with size 1 in the dimension of the means.
using SumNormOutputs = std::tuple<at::Tensor, at::Tensor>;

namespace reference {

/// Numbers of less than four bytes are summed in float32.
SumNormOutputs sum_norm(const at::Tensor& a, const at::Tensor& b, Over over);

/// ∂s of ∂y and, where defined, ∂r; in operations that can be differentiated again.
at::Tensor sum_norm_backward(const at::Tensor& for_y, const at::Tensor& for_r, const at::Tensor& y,
                             const at::Tensor& r, Over over);

}  // namespace reference

namespace cpu {

SumNormOutputs sum_norm(const at::Tensor& a, const at::Tensor& b, bool over_tokens);
at::Tensor sum_norm_backward(const at::Tensor& g, const at::Tensor& y, const at::Tensor& r,
                             bool over_tokens);

}  // namespace cpu

}  // namespace deq::kernels

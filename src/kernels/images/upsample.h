#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "kernels/common/operators.h"

// Small images s [B, C, H, W] with every entry repeated in both directions, plus others
// x [B, C, 2H, 2W], then ReLU where asked for:
//
//   y = U s (+ x).
//
// Reads x and s once and writes y once; the backward reads ∂y (and y, for the ReLU) and writes
// ∂s = Uᵀ∂y (and ∂x, where it is not ∂y itself). Where the kernels do not serve it is torch's
// operations, which are the oracle of the tests.

namespace deq::kernels {

/// Differentiable as often as wanted. An undefined x is none.
at::Tensor upsample_add(const at::Tensor& small, const at::Tensor& x, bool relu);

bool upsample_add_serves(const at::Tensor& small, const at::Tensor& x);

/// What the operators deq::upsample_add and deq::upsample_add_backward are on the CPU, of images
/// with dense pixels: after the sum, zero where there is a mask and it is not positive; ∂s, and ∂x
/// where there is a mask.
namespace cpu {
at::Tensor upsample_add(const at::Tensor& small, const OptionalTensor& x,
                        const OptionalTensor& mask, bool relu);
std::tuple<at::Tensor, at::Tensor> upsample_add_backward(const at::Tensor& g,
                                                         const OptionalTensor& mask);
}  // namespace cpu

namespace reference {
at::Tensor upsample_add(const at::Tensor& small, const at::Tensor& x, bool relu);
}  // namespace reference

}  // namespace deq::kernels

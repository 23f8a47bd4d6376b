#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

// Small images s [B, C, H, W] with every entry repeated in both directions, plus others
// x [B, C, 2H, 2W], then ReLU where asked for:
//
//   y = U s (+ x).
//
// Reads x and s once and writes y once; the backward reads ∂y (and y, for the ReLU) and writes
// ∂s = Uᵀ∂y (and ∂x, where it is not ∂y itself). The operators deq::upsample_add and
// deq::upsample_add_backward are the CUDA plugin's; elsewhere it is torch's operations, which are
// the oracle of the tests.

namespace deq::kernels {

/// Differentiable as often as wanted. An undefined x is none.
at::Tensor upsample_add(const at::Tensor& small, const at::Tensor& x, bool relu);

bool upsample_add_serves(const at::Tensor& small, const at::Tensor& x);

namespace reference {
at::Tensor upsample_add(const at::Tensor& small, const at::Tensor& x, bool relu);
}  // namespace reference

}  // namespace deq::kernels

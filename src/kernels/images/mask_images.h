#pragma once

#include <ATen/core/Tensor.h>

// Images x [B, C, H, W] with a mask m [B, C, 1, 1] that all pixels of a sample share, plus others
// where there are any:
//
//   y = x ⊙ m (+ a).
//
// Reads x and a once and writes y once. The operator deq::mask_images is the CUDA plugin's;
// elsewhere it is torch's operations, which are the oracle of the tests.

namespace deq::kernels {

/// Differentiable in x and a as often as wanted. An undefined `addend` is none.
at::Tensor mask_images(const at::Tensor& x, const at::Tensor& mask, const at::Tensor& addend);

}  // namespace deq::kernels

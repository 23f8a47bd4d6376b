#pragma once

#include <ATen/core/Tensor.h>

namespace deq::kernels {

/// x [B, in, H, W] convolved with w [out, in, k, k], k odd, padded to keep the size at stride 1.
/// Computes in the type of w and is differentiable as often as wanted; gradients for x are
/// convolutions again, so that those of a product with J cost no more than the product. Where the
/// CPU kernel serves (float32, k = 3, stride 1, channels in multiples of eight and not too many) it
/// is Winograd's, reads x once and gives y in channels-last order; elsewhere it is torch's, which
/// is the oracle of the tests.
at::Tensor convolution(const at::Tensor& x, const at::Tensor& w, int64_t stride = 1);

/// The same for 3 × 3 weights on the CPU where y = x ⋆ w is known: what is computed is how it
/// depends on x and w.
at::Tensor known_convolution(const at::Tensor& x, const at::Tensor& w, const at::Tensor& y);

/// Of x ⋆ w with stride 1: the weights that give the gradient for x when ∂y is convolved with them,
/// turned by 180° and with their channels exchanged; and the gradient for w.
at::Tensor turned(const at::Tensor& w);
at::Tensor convolution_weight_gradient(const at::Tensor& g, const at::Tensor& x,
                                       const at::Tensor& w);

namespace cpu {
bool winograd_serves(const at::Tensor& x, const at::Tensor& w, int64_t stride = 1);
at::Tensor winograd3x3(const at::Tensor& x, const at::Tensor& w);
/// w as winograd.h reads it.
at::Tensor winograd_weights(const at::Tensor& w);
}  // namespace cpu

}  // namespace deq::kernels

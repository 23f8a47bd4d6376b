#pragma once

#include <ATen/core/Tensor.h>

namespace deq::kernels {

/// x [B, in, H, W] convolved with w [out, in, 3, 3], at stride 1 and padded to keep the size.
/// Differentiable as often as wanted. Where the CPU kernel serves (float32, channels in multiples
/// of eight and not too many) it is Winograd's, reads x once and gives y in channels-last order;
/// elsewhere it is torch's, which is the oracle of the tests.
at::Tensor convolution3x3(const at::Tensor& x, const at::Tensor& w);

namespace cpu {
bool winograd_serves(const at::Tensor& x, const at::Tensor& w);
at::Tensor winograd3x3(const at::Tensor& x, const at::Tensor& w);
}  // namespace cpu

}  // namespace deq::kernels

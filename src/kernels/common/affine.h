#pragma once

#include <ATen/core/Tensor.h>

namespace deq::kernels {

/// x·W + b for x [n, in], W [in, out] and b [out] or [n, out], or undefined. torch's, except on
/// CPUs whose instructions its library does not use. Differentiable as often as wanted.
at::Tensor affine(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b = {});

/// As torch's linear: x·Wᵀ + b for x […, in], W [out, in] and b [out], or undefined.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& b = {});

}  // namespace deq::kernels

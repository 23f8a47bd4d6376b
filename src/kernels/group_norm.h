#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

// Group norm of images and what follows it in a residual block, in one operation:
//
//   y = x̂ ⊙ weight + bias (+ addend),  then ReLU where asked for,
//
// x̂ the images [B, C, H, W] of zero mean and unit variance in each of `groups` groups of channels.
// Forward reads x twice, once from memory where a sample fits into the cache; backward likewise.
// Undefined weight, bias and addend are none.

namespace deq::kernels {

struct GroupNormOptions {
  int64_t groups = 1;
  double eps = 1e-5;
  bool relu = false;
};

/// Differentiable as often as wanted.
at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& addend, const GroupNormOptions& options);

struct GroupNormGradients {
  at::Tensor for_x{}, for_weight{}, for_bias{}, for_addend{};
};

/// Which gradients a product needs beside that for x.
struct GroupNormWanted {
  bool affine = true, addend = true;
};

namespace reference {
at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& addend, const GroupNormOptions& options);
}  // namespace reference

namespace cpu {
bool group_norm_serves(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& addend);
/// y, and the mean and the reciprocal standard deviation of every group, [B, groups].
std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm(const at::Tensor& x,
                                                          const at::Tensor& weight,
                                                          const at::Tensor& bias,
                                                          const at::Tensor& addend,
                                                          const GroupNormOptions& options);
/// `y` is undefined where there was no ReLU.
GroupNormGradients group_norm_backward(const at::Tensor& g, const at::Tensor& x,
                                       const at::Tensor& y, const at::Tensor& mean,
                                       const at::Tensor& rstd, const at::Tensor& weight,
                                       const GroupNormWanted& wanted);
}  // namespace cpu

}  // namespace deq::kernels

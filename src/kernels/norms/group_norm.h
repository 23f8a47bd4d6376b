#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

// Group norm of images and what follows it in a residual block, in one operation:
//
//   y = x̂ ⊙ weight + bias (+ addend),  then ReLU where asked for,
//
// x̂ the images [B, C, H, W] of zero mean and unit variance in each of `groups` groups of channels.
// Forward reads x twice, once from memory where a sample fits into the cache; backward likewise.
// Undefined weight, bias and addend are none.
//
// Forward, backward and the backward's backward are operators: deq::group_norm,
// deq::group_norm_backward, deq::group_norm_double_backward. They take images with dense pixels in
// channels-last order. The CPU's serve float32 and float64, the CUDA plugin's bfloat16 too, with
// statistics, weight and bias in float32; elsewhere all is torch's, which is the oracle of the
// tests.

namespace deq::kernels {

struct GroupNormOptions {
  int64_t groups = 1;
  double eps = 1e-5;
  bool relu = false;
  std::optional<at::ScalarType> type{};  ///< of y; that of x by default
  at::Tensor
      target{};  ///< images that y is to be written into, without a graph; by default new ones
};

/// Differentiable as often as wanted. Backward without graph, and the backward of a backward that
/// gave no gradients for weight and bias, are kernels.
at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& addend, const GroupNormOptions& options);

/// Whether there are kernels for these; otherwise torch's operations serve.
bool group_norm_serves(const at::Tensor& x, const at::Tensor& weight,
                       const GroupNormOptions& options);

using OptionalTensor = std::optional<at::Tensor>;

/// y, and the mean and the reciprocal standard deviation of every group, [B, groups].
using GroupNormOutputs = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
/// For x, weight, bias and addend. That for the addend is made where there was a ReLU; otherwise it
/// is ∂y.
using GroupNormGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
/// For ∂y, x and weight.
using GroupNormSecondGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

namespace reference {

at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& addend, const GroupNormOptions& options);

/// In operations that can be differentiated again:
///   ∂x = r (a − mean(a) − x̂ mean(a x̂)),  a = ∂y ⊙ weight,  means over a group, r = 1/√(var + ε).
/// `g` is ∂y; `y` is undefined where there was no ReLU.
GroupNormGradients group_norm_backward(const at::Tensor& g, const at::Tensor& x,
                                       const at::Tensor& y, const at::Tensor& weight,
                                       int64_t groups, double eps);

/// What a group norm's backward is computed at.
struct GroupNormPoint {
  at::Tensor g{}, x{}, y{}, mean{}, rstd{}, weight{};
};

/// The gradients of ⟨v, ∂x⟩ + ⟨v_addend, ∂addend⟩. With P u = u − mean(u) − x̂ mean(u x̂):
///   for ∂y: r weight ⊙ P v (+ v_addend), where y > 0;   for weight: Σ ∂y ⊙ r P v;
///   for x: −r² (x̂ (mean(v a) − mean(v) mean(a) − mean(v x̂) mean(a x̂))
///               + mean(a x̂) P v + mean(v x̂) P a).
/// Differentiable again when `mean` and `rstd` are.
GroupNormSecondGradients group_norm_double_backward(const at::Tensor& v, const at::Tensor& v_addend,
                                                    const GroupNormPoint& at);

/// Mean and reciprocal standard deviation [B, groups], on the tape.
std::tuple<at::Tensor, at::Tensor> group_statistics(const at::Tensor& x, int64_t groups,
                                                    double eps);

}  // namespace reference

/// What group_norm's backward gives: for x; for weight and bias where `affine`; where `addend`,
/// what passes the ReLU. Differentiable where gradients are enabled, as a function of ∂y, x and
/// weight.
GroupNormGradients group_norm_gradients(const reference::GroupNormPoint& at, double eps,
                                        bool affine, bool addend);

namespace cpu {

GroupNormOutputs group_norm(const at::Tensor& x, const OptionalTensor& weight,
                            const OptionalTensor& bias, const OptionalTensor& addend,
                            int64_t groups, double eps, bool relu,
                            std::optional<at::ScalarType> type, const OptionalTensor& target);

GroupNormGradients group_norm_backward(const at::Tensor& g, const at::Tensor& x,
                                       const OptionalTensor& y, const at::Tensor& mean,
                                       const at::Tensor& rstd, const OptionalTensor& weight,
                                       bool affine, bool addend);

GroupNormSecondGradients group_norm_double_backward(const at::Tensor& v,
                                                    const OptionalTensor& v_addend,
                                                    const at::Tensor& g, const at::Tensor& x,
                                                    const OptionalTensor& y, const at::Tensor& mean,
                                                    const at::Tensor& rstd,
                                                    const OptionalTensor& weight, bool affine);

}  // namespace cpu

}  // namespace deq::kernels

#include "kernels/images/residual_branch.h"

#include <torch/autograd.h>

#include "kernels/common/operators.h"
#include "kernels/common/product.h"
#include "kernels/images/convolution.h"
#include "kernels/norms/group_norm.h"

namespace deq::kernels {
namespace {

at::Tensor normed_relu(const at::Tensor& inner, const BranchWeights& weights) {
  return group_norm(inner, weights.norm_weight, weights.norm_bias, /*addend=*/{},
                    {.groups = weights.groups, .eps = weights.eps, .relu = true});
}

}  // namespace

namespace reference {

at::Tensor residual_branch(const at::Tensor& x, const BranchWeights& weights) {
  return convolution(normed_relu(convolution(x, weights.first), weights), weights.second);
}

}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct ResidualBranch : torch::autograd::Function<ResidualBranch> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& first,
                            const at::Tensor& second, const OptionalTensor& norm_weight,
                            const OptionalTensor& norm_bias, int64_t groups, double eps) {
    const BranchWeights weights{.first = first,
                                .norm_weight = norm_weight.value_or(at::Tensor()),
                                .norm_bias = norm_bias.value_or(at::Tensor()),
                                .groups = groups,
                                .eps = eps,
                                .second = second};
    const auto made = cpu::residual_branch(x, weights, /*keep=*/true);
    context->save_for_backward({x, first, second, weights.norm_weight, weights.norm_bias,
                                made.inner, made.hidden, made.mean, made.rstd});
    context->saved_data["groups"] = groups;
    context->saved_data["eps"] = eps;
    return made.y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &first = saved[1], &second = saved[2], &g = gradients[0];
    const BranchWeights weights{.first = first,
                                .norm_weight = saved[3],
                                .norm_bias = saved[4],
                                .groups = context->saved_data["groups"].toInt(),
                                .eps = context->saved_data["eps"].toDouble(),
                                .second = second};
    cpu::BranchOutputs at{
        .inner = saved[5], .hidden = saved[6], .mean = saved[7], .rstd = saved[8]};
    // Undefined tensors are no inputs to torch: those behind them move up.
    size_t next = 3;
    const bool for_norm_weight = weights.norm_weight.defined() && context->needs_input_grad(next++);
    const bool for_norm_bias = weights.norm_bias.defined() && context->needs_input_grad(next++);
    const bool for_first = context->needs_input_grad(1), for_second = context->needs_input_grad(2);
    const bool affine = for_norm_weight || for_norm_bias;
    tensor_list all(7);
    if (!at::GradMode::is_enabled() && !for_first && !for_second && !affine) {
      all[0] = cpu::residual_branch_backward(g, at, weights);
      return all;
    }
    if (at::GradMode::is_enabled()) {  // the same numbers, as functions of x and the weights
      at.inner = known_convolution(x, first, at.inner);
      if (for_second) at.hidden = normed_relu(at.inner, weights);
    }
    const auto pulled = group_norm_gradients({.g = convolution(g, turned(second)),
                                              .x = at.inner,
                                              .y = at.hidden,
                                              .mean = at.mean,
                                              .rstd = at.rstd,
                                              .weight = weights.norm_weight},
                                             weights.eps, affine, /*addend=*/false);
    const auto& for_inner = std::get<0>(pulled);
    if (context->needs_input_grad(0)) all[0] = convolution(for_inner, turned(first));
    if (for_first) all[1] = convolution_weight_gradient(for_inner, x, first);
    if (for_second) all[2] = convolution_weight_gradient(g, at.hidden, second);
    if (for_norm_weight) all[3] = std::get<1>(pulled);
    if (for_norm_bias) all[4] = std::get<2>(pulled);
    return all;
  }
};

}  // namespace

at::Tensor residual_branch(const at::Tensor& x, const BranchWeights& weights) {
  if (!cpu::residual_branch_serves(x, weights)) return reference::residual_branch(x, weights);
  if (!at::GradMode::is_enabled()) {
    const WithoutGradients guard;
    return cpu::residual_branch(x, weights, /*keep=*/false).y;
  }
  return ResidualBranch::apply(x, weights.first, weights.second, as_optional(weights.norm_weight),
                               as_optional(weights.norm_bias), weights.groups, weights.eps);
}

}  // namespace deq::kernels

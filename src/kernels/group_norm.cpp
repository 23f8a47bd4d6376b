#include "kernels/group_norm.h"

#include <torch/autograd.h>
#include <torch/types.h>

namespace deq::kernels {

namespace reference {

at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& addend, const GroupNormOptions& options) {
  auto y = at::group_norm(x, options.groups, weight, bias, options.eps);
  // In place: the norm's backward reads its input alone.
  if (addend.defined()) y.add_(addend);
  return options.relu ? y.relu_() : y;
}

}  // namespace reference

namespace {

/// The gradients in operations that can be differentiated again:
///   ∂x = rstd (a − mean(a) − x̂ mean(a ⊙ x̂)),  a = ∂y ⊙ weight,  means over a group.
GroupNormGradients differentiable_backward(const at::Tensor& g, const at::Tensor& x,
                                           const at::Tensor& y, const at::Tensor& weight,
                                           int64_t groups, double eps) {
  const std::vector<int64_t> split{groups, x.size(1) / groups}, own{2, 3, 4};
  const auto pulled = y.defined() ? g * y.gt(0) : g;
  const auto grouped = x.unflatten(1, split);
  const auto [variance, mean] = at::var_mean(grouped, own, /*unbiased=*/false, /*keepdim=*/true);
  const auto rstd = (variance + eps).rsqrt();
  const auto normal = (grouped - mean) * rstd;
  const auto scaled = weight.defined() ? pulled * weight.view({-1, 1, 1}) : pulled;
  const auto a = scaled.unflatten(1, split);
  const auto along = (a * normal).mean(own, /*keepdim=*/true);
  GroupNormGradients result;
  result.for_x = (rstd * (a - a.mean(own, /*keepdim=*/true) - normal * along)).flatten(1, 2);
  result.for_addend = pulled;
  result.for_weight = (pulled * normal.flatten(1, 2)).sum({0, 2, 3});
  result.for_bias = pulled.sum({0, 2, 3});
  return result;
}

using OptionalTensor = std::optional<at::Tensor>;

/// For torch, which takes an undefined tensor for an input like others.
OptionalTensor as_optional(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

struct GroupNorm : torch::autograd::Function<GroupNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const OptionalTensor& weight, const OptionalTensor& bias,
                            const OptionalTensor& addend, int64_t groups, double eps, bool relu) {
    const auto scale = weight.value_or(at::Tensor());
    auto [y, mean, rstd] =
        cpu::group_norm(x, scale, bias.value_or(at::Tensor()), addend.value_or(at::Tensor()),
                        {.groups = groups, .eps = eps, .relu = relu});
    context->save_for_backward({x, scale, relu ? y : at::Tensor(), mean, rstd});
    context->saved_data["groups"] = groups;
    context->saved_data["eps"] = eps;
    context->saved_data["addend"] = addend.has_value();
    return y;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &y = saved[2], &g = gradients[0];
    size_t place = 1;  // among the inputs that there are
    const auto next_is_wanted = [&](bool there) {
      return there && context->needs_input_grad(place++);
    };
    const bool for_weight = next_is_wanted(weight.defined());
    const bool for_bias = next_is_wanted(weight.defined());
    const bool for_addend = next_is_wanted(context->saved_data["addend"].toBool());
    GroupNormGradients result;
    if (at::GradMode::is_enabled()) {
      result = differentiable_backward(g, x, y, weight, context->saved_data["groups"].toInt(),
                                       context->saved_data["eps"].toDouble());
    } else {
      result = cpu::group_norm_backward(g, x, y, saved[3], saved[4], weight,
                                        {.affine = for_weight || for_bias, .addend = for_addend});
    }
    return {result.for_x,
            for_weight ? result.for_weight : at::Tensor(),
            for_bias ? result.for_bias : at::Tensor(),
            for_addend ? result.for_addend : at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& addend, const GroupNormOptions& options) {
  if (!cpu::group_norm_serves(x, weight, addend)) {
    return reference::group_norm(x, weight, bias, addend, options);
  }
  return GroupNorm::apply(x, as_optional(weight), as_optional(bias), as_optional(addend),
                          options.groups, options.eps, options.relu);
}

}  // namespace deq::kernels

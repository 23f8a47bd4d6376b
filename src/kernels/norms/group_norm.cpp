#include "kernels/norms/group_norm.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include "core/require.h"
#include "kernels/common/operators.h"
#include "kernels/images/images.h"
#include "kernels/norms/group_norm_plan.h"

namespace deq::kernels {
namespace {

/// For torch, which takes an undefined tensor for an input like others.
GroupNormOutputs call_group_norm(const at::Tensor& x, const OptionalTensor& weight,
                                 const OptionalTensor& bias, const OptionalTensor& addend,
                                 const GroupNormOptions& options) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_operator<decltype(cpu::group_norm)>("deq::group_norm");
  return op.call(dense_pixels(x), weight, bias, dense_pixels_or_none(addend.value_or(at::Tensor())),
                 options.groups, options.eps, options.relu, options.type,
                 as_optional(options.target));
}

using Point = reference::GroupNormPoint;

GroupNormGradients call_group_norm_backward(const Point& at, bool affine, bool addend) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      find_operator<decltype(cpu::group_norm_backward)>("deq::group_norm_backward");
  return op.call(dense_pixels(at.g), dense_pixels(at.x), dense_pixels_or_none(at.y), at.mean,
                 at.rstd, as_optional(at.weight), affine, addend);
}

GroupNormSecondGradients call_double_backward(const at::Tensor& v, const at::Tensor& v_addend,
                                              const Point& at, bool affine) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      find_operator<decltype(cpu::group_norm_double_backward)>("deq::group_norm_double_backward");
  return op.call(dense_pixels(v), dense_pixels_or_none(v_addend), dense_pixels(at.g),
                 dense_pixels(at.x), dense_pixels_or_none(at.y), at.mean, at.rstd,
                 as_optional(at.weight), affine);
}

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// Says which inputs want a gradient, in the order of the inputs that there are.
class Wanted {
 public:
  explicit Wanted(const AutogradContext& context) : context_(context) {}
  bool next(bool there = true) { return there && context_.needs_input_grad(next_++); }

 private:
  const AutogradContext& context_;
  size_t next_ = 0;
};

/// The gradients for x and, where there was a ReLU, for the addend, as a function of ∂y, x, weight.
struct GroupNormBackward : torch::autograd::Function<GroupNormBackward> {
  static tensor_list forward(AutogradContext* context, const at::Tensor& g, const at::Tensor& x,
                             const OptionalTensor& weight, const OptionalTensor& y,
                             const at::Tensor& mean, const at::Tensor& rstd, double eps,
                             bool addend) {
    const Point at{.g = g,
                   .x = x,
                   .y = y.value_or(at::Tensor()),
                   .mean = mean,
                   .rstd = rstd,
                   .weight = weight.value_or(at::Tensor())};
    context->set_materialize_grads(false);
    context->save_for_backward({g, x, at.y, mean, rstd, at.weight});
    context->saved_data["eps"] = eps;
    const auto result = call_group_norm_backward(at, /*affine=*/false, addend);
    return addend ? tensor_list{std::get<0>(result), std::get<3>(result)}
                  : tensor_list{std::get<0>(result)};
  }

  static tensor_list backward(AutogradContext* context, tensor_list cotangents) {
    const auto saved = context->get_saved_variables();
    Point at{.g = saved[0],
             .x = saved[1],
             .y = saved[2],
             .mean = saved[3],
             .rstd = saved[4],
             .weight = saved[5]};
    Wanted wanted(*context);
    const bool for_g = wanted.next(), for_x = wanted.next();
    const bool for_weight = wanted.next(at.weight.defined());
    const auto v = cotangents[0].defined() ? cotangents[0] : at::zeros_like(at.x);
    const auto v_addend = cotangents.size() > 1 ? cotangents[1] : at::Tensor();
    GroupNormSecondGradients result;
    if (at::GradMode::is_enabled()) {
      std::tie(at.mean, at.rstd) =
          reference::group_statistics(at.x, at.mean.size(1), context->saved_data["eps"].toDouble());
      result = reference::group_norm_double_backward(v, v_addend, at);
    } else {
      result = call_double_backward(v, v_addend, at, for_weight);
    }
    tensor_list gradients(8);
    if (for_g) gradients[0] = std::get<0>(result);
    if (for_x) gradients[1] = std::get<1>(result);
    if (for_weight) gradients[2] = std::get<2>(result);
    return gradients;
  }
};

struct GroupNorm : torch::autograd::Function<GroupNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const OptionalTensor& weight, const OptionalTensor& bias,
                            const OptionalTensor& addend, const GroupNormOptions& options) {
    auto [y, mean, rstd] = call_group_norm(x, weight, bias, addend, options);
    context->save_for_backward(
        {x, weight.value_or(at::Tensor()), options.relu ? y : at::Tensor(), mean, rstd});
    context->saved_data["eps"] = options.eps;
    context->saved_data["addend"] = addend.has_value();
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& g = gradients[0];
    const Point at{.g = g,
                   .x = saved[0],
                   .y = saved[2],
                   .mean = saved[3],
                   .rstd = saved[4],
                   .weight = saved[1]};
    Wanted wanted(*context);
    wanted.next();  // x, always
    const bool for_weight = wanted.next(at.weight.defined());
    const bool for_bias = wanted.next(at.weight.defined());
    const bool for_addend = wanted.next(context->saved_data["addend"].toBool());
    const bool affine = for_weight || for_bias, masked = for_addend && at.y.defined();
    const double eps = context->saved_data["eps"].toDouble();
    const auto result = group_norm_gradients(at, eps, affine, masked);
    tensor_list all(5);
    all[0] = std::get<0>(result);
    if (for_weight) all[1] = std::get<1>(result);
    if (for_bias) all[2] = std::get<2>(result);
    if (for_addend) all[3] = masked ? std::get<3>(result) : g;
    return all;
  }
};

}  // namespace

GroupNormGradients group_norm_gradients(const reference::GroupNormPoint& at, double eps,
                                        bool affine, bool addend) {
  if (!at::GradMode::is_enabled()) return call_group_norm_backward(at, affine, addend);
  if (affine) {
    return reference::group_norm_backward(at.g, at.x, at.y, at.weight, at.mean.size(1), eps);
  }
  const auto list = GroupNormBackward::apply(
      at.g, at.x, as_optional(at.weight),
      at.y.defined() ? OptionalTensor(at.y.detach()) : std::nullopt, at.mean, at.rstd, eps, addend);
  GroupNormGradients result;
  std::get<0>(result) = list[0];
  if (addend) std::get<3>(result) = list[1];
  return result;
}

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def(
      "group_norm(Tensor x, Tensor? weight, Tensor? bias, Tensor? addend, int groups, float eps, "
      "bool relu, ScalarType? type, Tensor(a!)? target) -> (Tensor, Tensor, Tensor)");
  library.def(
      "group_norm_backward(Tensor g, Tensor x, Tensor? y, Tensor mean, Tensor rstd, Tensor? "
      "weight, bool affine, bool addend) -> (Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "group_norm_double_backward(Tensor v, Tensor? v_addend, Tensor g, Tensor x, Tensor? y, "
      "Tensor mean, Tensor rstd, Tensor? weight, bool affine) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(deq, CPU, library) {
  library.impl("group_norm", &cpu::group_norm);
  library.impl("group_norm_backward", &cpu::group_norm_backward);
  library.impl("group_norm_double_backward", &cpu::group_norm_double_backward);
}

bool group_norm_serves(const at::Tensor& x, const at::Tensor& weight,
                       const GroupNormOptions& options) {
  const auto type = x.scalar_type(), out = options.type.value_or(type);
  const bool narrow = x.is_cuda() && type == at::kBFloat16;
  const auto own = narrow ? at::kFloat : type;  // of weight and bias
  if (x.dim() != 4 || (type != at::kFloat && type != at::kDouble && !narrow)) return false;
  if (weight.defined() && weight.scalar_type() != own) return false;
  if (out != type && out != own) return false;
  if (!x.is_cuda()) return x.is_cpu();
  const bool counted = c10::multiply_integers(x.sizes().slice(1)) < int64_t{1} << 31;
  return counted && cuda::group_norm_fits(x.size(1) / options.groups, x.element_size());
}

at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& addend, const GroupNormOptions& options) {
  const auto& target = options.target;
  require(!target.defined() || !at::GradMode::is_enabled(),
          "a group norm with a graph cannot be written into a tensor that is there");
  if (!group_norm_serves(x, weight, options)) {
    auto y = reference::group_norm(x, weight, bias, addend, options);
    return target.defined() ? target.copy_(y) : y;
  }
  const auto added = as_optional(addend.defined() ? addend.to(x.scalar_type()) : addend);
  if (target.defined()) {
    return std::get<0>(call_group_norm(x, as_optional(weight), as_optional(bias), added, options));
  }
  return GroupNorm::apply(x, as_optional(weight), as_optional(bias), added, options);
}

}  // namespace deq::kernels

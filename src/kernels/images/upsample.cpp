#include "kernels/images/upsample.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include "kernels/common/operators.h"
#include "kernels/images/images.h"

namespace deq::kernels {

namespace reference {

at::Tensor upsample_add(const at::Tensor& small, const at::Tensor& x, bool relu) {
  auto y = at::upsample_nearest2d(small, {2 * small.size(2), 2 * small.size(3)});
  if (x.defined()) y.add_(x);
  return relu ? y.relu_() : y;
}

}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// U s + x, then ReLU, or zero where there is a mask and it is not positive.
at::Tensor call_upsample(const at::Tensor& small, const at::Tensor& x, const at::Tensor& mask,
                         bool relu) {
  const at::AutoDispatchBelowAutograd below_autograd;
  using Signature =
      at::Tensor(const at::Tensor&, const OptionalTensor&, const OptionalTensor&, bool);
  static const auto op = find_operator<Signature>("deq::upsample_add");
  return op.call(dense_pixels(small), dense_pixels_or_none(x), dense_pixels_or_none(mask), relu);
}

/// ∂s, and ∂x where there is a mask.
tensor_list call_upsample_backward(const at::Tensor& g, const at::Tensor& mask) {
  const at::AutoDispatchBelowAutograd below_autograd;
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const OptionalTensor&);
  static const auto op = find_operator<Signature>("deq::upsample_add_backward");
  const auto [for_small, for_x] = op.call(dense_pixels(g), dense_pixels_or_none(mask));
  return {for_small, for_x};
}

/// ∂s and ∂x as functions of ∂y. They are linear: its own backward is the forward, masked.
struct UpsampleAddBackward : torch::autograd::Function<UpsampleAddBackward> {
  static tensor_list forward(AutogradContext* context, const at::Tensor& g,
                             const OptionalTensor& y) {
    const auto mask = y.value_or(at::Tensor());
    context->set_materialize_grads(false);
    context->save_for_backward({mask});
    auto result = call_upsample_backward(g, mask);
    if (!y) result.pop_back();
    return result;
  }

  static tensor_list backward(AutogradContext* context, tensor_list cotangents) {
    const auto mask = context->get_saved_variables()[0];
    const auto& for_small = cotangents[0];
    const auto for_x = cotangents.size() > 1 ? cotangents[1] : at::Tensor();
    if (!for_small.defined()) {
      return {for_x.defined() ? for_x * mask.gt(0) : for_x, at::Tensor()};
    }
    if (!at::GradMode::is_enabled()) {
      return {call_upsample(for_small, for_x, mask, /*relu=*/false), at::Tensor()};
    }
    const auto sum = upsample_add(for_small, for_x, /*relu=*/false);
    return {mask.defined() ? sum * mask.gt(0) : sum, at::Tensor()};
  }
};

struct UpsampleAdd : torch::autograd::Function<UpsampleAdd> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& small,
                            const OptionalTensor& x, bool relu) {
    auto y = call_upsample(small, x.value_or(at::Tensor()), {}, relu);
    context->save_for_backward({relu ? y : at::Tensor()});
    context->saved_data["added"] = x.has_value();
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto y = context->get_saved_variables()[0];
    const auto& g = gradients[0];
    const auto result =
        at::GradMode::is_enabled()
            ? UpsampleAddBackward::apply(g, y.defined() ? OptionalTensor(y.detach()) : std::nullopt)
            : call_upsample_backward(g, y);
    const bool added = context->saved_data["added"].toBool();
    return {result[0], added ? (y.defined() ? result[1] : g) : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("upsample_add(Tensor small, Tensor? x, Tensor? mask, bool relu) -> Tensor");
  library.def("upsample_add_backward(Tensor g, Tensor? mask) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(deq, CPU, library) {
  library.impl("upsample_add", &cpu::upsample_add);
  library.impl("upsample_add_backward", &cpu::upsample_add_backward);
}

bool upsample_add_serves(const at::Tensor& small, const at::Tensor& x) {
  const auto type = small.scalar_type();
  const bool here = small.is_cuda() || small.is_cpu();
  const bool typed =
      type == at::kFloat || type == at::kDouble || (type == at::kBFloat16 && small.is_cuda());
  const bool fits =
      !x.defined() || (x.device() == small.device() && x.scalar_type() == type && x.dim() == 4 &&
                       x.size(2) == 2 * small.size(2) && x.size(3) == 2 * small.size(3));
  return here && small.dim() == 4 && typed && fits;
}

at::Tensor upsample_add(const at::Tensor& small, const at::Tensor& x, bool relu) {
  if (!upsample_add_serves(small, x)) return reference::upsample_add(small, x, relu);
  return UpsampleAdd::apply(small, as_optional(x), relu);
}

}  // namespace deq::kernels

#include "nn/replayed.h"

#include <torch/autograd.h>

#include <utility>

#include "deq/core/error.h"

namespace deq {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct Capsule : torch::CustomClassHolder {
  explicit Capsule(LeafGradients gradients) : of(std::move(gradients)) {}
  LeafGradients of;
};

/// A value that was computed elsewhere, as a function of `leaves`.
struct Replayed : torch::autograd::Function<Replayed> {
  static torch::Tensor forward(AutogradContext* context, at::TensorList leaves,
                               const torch::Tensor& value,
                               const c10::intrusive_ptr<Capsule>& gradients) {
    context->saved_data["gradients"] = c10::IValue::make_capsule(gradients);
    context->saved_data["leaves"] = static_cast<int64_t>(leaves.size());
    return value.view_as(value);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    require(!torch::GradMode::is_enabled(),
            "a replayed value cannot be differentiated again (create_graph); use the "
            "Unrolled gradient where second derivatives are needed");
    const auto capsule =
        c10::static_intrusive_pointer_cast<Capsule>(context->saved_data["gradients"].toCapsule());
    auto result = capsule->of(gradients[0].contiguous());
    require(static_cast<int64_t>(result.size()) == context->saved_data["leaves"].toInt(),
            "a replayed value has gradients for ", result.size(), " leaves of ",
            context->saved_data["leaves"].toInt());
    result.emplace_back();  // for `value`
    result.emplace_back();  // for `gradients`
    return result;
  }
};

}  // namespace

torch::Tensor replayed(const std::vector<torch::Tensor>& leaves, const torch::Tensor& value,
                       LeafGradients gradients) {
  return Replayed::apply(at::TensorList(leaves), value,
                         c10::make_intrusive<Capsule>(std::move(gradients)));
}

}  // namespace deq

#include "nn/replayed.h"

#include <torch/autograd.h>

#include <utility>

#include "deq/core/error.h"

namespace deq {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// How gradients are to lie in memory, so that parameters can keep them; those of other leaves have
/// no strides here and are passed on as they are.
using Strides = std::vector<c10::DimVector>;

struct Capsule : torch::CustomClassHolder {
  Capsule(LeafGradients gradients, const std::vector<torch::Tensor>& leaves)
      : of(std::move(gradients)) {
    for (const auto& leaf : leaves) {
      const bool keeps = leaf.is_leaf() && leaf.is_non_overlapping_and_dense();
      strides.emplace_back(keeps ? c10::DimVector(leaf.strides()) : c10::DimVector());
    }
  }
  LeafGradients of;
  Strides strides;
};

/// Copies what parameters are to keep out of a recording's memory, all in one go: autograd would do
/// it one by one, and a GPU would wait for the host.
void copy_out(std::vector<torch::Tensor>& gradients, const Strides& strides) {
  std::vector<torch::Tensor> own, recorded;
  for (size_t i = 0; i < gradients.size(); ++i) {
    auto& gradient = gradients[i];
    if (!gradient.defined() || gradient.strides() != strides[i]) continue;
    own.push_back(at::empty_strided(gradient.sizes(), strides[i], gradient.options()));
    recorded.push_back(gradient);
    gradient = own.back();
  }
  if (!own.empty()) at::_foreach_copy_(own, recorded);
}

/// A value that was computed elsewhere, as a function of `leaves`.
struct Replayed : torch::autograd::Function<Replayed> {
  static torch::Tensor forward(AutogradContext* context, at::TensorList /*leaves*/,
                               const torch::Tensor& value,
                               const c10::intrusive_ptr<Capsule>& gradients) {
    context->saved_data["gradients"] = c10::IValue::make_capsule(gradients);
    return value.view_as(value);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    require(!torch::GradMode::is_enabled(),
            "a replayed value cannot be differentiated again (create_graph); use the "
            "Unrolled gradient where second derivatives are needed");
    const auto capsule =
        c10::static_intrusive_pointer_cast<Capsule>(context->saved_data["gradients"].toCapsule());
    auto result = capsule->of(gradients[0].contiguous());
    require(result.size() == capsule->strides.size(), "a replayed value has gradients for ",
            result.size(), " leaves of ", capsule->strides.size());
    copy_out(result, capsule->strides);
    result.emplace_back();  // for `value`
    result.emplace_back();  // for `gradients`
    return result;
  }
};

}  // namespace

torch::Tensor replayed(const std::vector<torch::Tensor>& leaves, const torch::Tensor& value,
                       LeafGradients gradients) {
  return Replayed::apply(at::TensorList(leaves), value,
                         c10::make_intrusive<Capsule>(std::move(gradients), leaves));
}

}  // namespace deq

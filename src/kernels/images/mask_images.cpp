#include "kernels/images/mask_images.h"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include "kernels/common/operators.h"
#include "kernels/images/images_tensors_cuda.h"

namespace deq::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

at::Tensor call_mask_images(const at::Tensor& x, const at::Tensor& mask,
                            const OptionalTensor& addend) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&)>(
          "deq::mask_images");
  return op.call(x, mask, addend);
}

struct MaskImages : torch::autograd::Function<MaskImages> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& mask,
                            const OptionalTensor& addend) {
    context->save_for_backward({mask});
    context->saved_data["added"] = addend.has_value();
    return call_mask_images(x, mask, addend);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto mask = context->get_saved_variables()[0];
    const auto& g = gradients[0];
    return {MaskImages::apply(g, mask, std::nullopt), at::Tensor(),
            context->saved_data["added"].toBool() ? g : at::Tensor()};
  }
};

/// What the kernel reads, a vector at once.
bool serves_mask_images(const at::Tensor& x, const at::Tensor& mask, const at::Tensor& addend) {
  const auto type = x.scalar_type();
  return x.is_cuda() && (type == at::kFloat || type == at::kBFloat16) &&
         x.size(1) * x.element_size() % 16 == 0 && x.size(0) <= cuda::kMostSamples &&
         mask.scalar_type() == type && mask.is_contiguous() &&
         (!addend.defined() || addend.scalar_type() == type);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("mask_images(Tensor x, Tensor mask, Tensor? addend) -> Tensor");
}

at::Tensor mask_images(const at::Tensor& x, const at::Tensor& mask, const at::Tensor& addend) {
  if (serves_mask_images(x, mask, addend)) return MaskImages::apply(x, mask, as_optional(addend));
  return addend.defined() ? at::addcmul(addend, x, mask) : x * mask;
}

}  // namespace deq::kernels

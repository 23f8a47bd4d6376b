#include "kernels/sample_masks.h"

#include <torch/library.h>
#include <torch/types.h>

namespace deq::kernels {

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("mask_samples_(Tensor(a!) rows, Tensor masks, Tensor? positive) -> ()");
}

void mask_samples(const at::Tensor& rows, const at::Tensor& masks, const at::Tensor& positive) {
  using OptionalTensor = std::optional<at::Tensor>;
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("deq::mask_samples_", "")
          .typed<void(const at::Tensor&, const at::Tensor&, const OptionalTensor&)>();
  op.call(rows, masks, positive.defined() ? OptionalTensor(positive) : std::nullopt);
}

}  // namespace deq::kernels

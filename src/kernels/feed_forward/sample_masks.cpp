#include "kernels/feed_forward/sample_masks.h"

#include <torch/library.h>
#include <torch/types.h>

#include "kernels/common/operators.h"

namespace deq::kernels {

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def("mask_samples_(Tensor(a!) rows, Tensor masks, Tensor? positive) -> ()");
}

void mask_samples(const at::Tensor& rows, const at::Tensor& masks, const at::Tensor& positive) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      find_operator<void(const at::Tensor&, const at::Tensor&, const OptionalTensor&)>(
          "deq::mask_samples_");
  op.call(rows, masks, as_optional(positive));
}

}  // namespace deq::kernels

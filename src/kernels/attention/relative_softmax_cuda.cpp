#include "kernels/attention/relative_softmax_cuda.h"
#include "kernels/common/operators.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <optional>
#include <tuple>

#include "kernels/images/images_tensors_cuda.h"

// The plugin's side of relative_softmax.h.

namespace deq::kernels::cuda {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

const void* pointer(const OptionalTensor& tensor) {
  return tensor ? tensor->const_data_ptr() : nullptr;
}

Pair relative_softmax_op(const at::Tensor& content, const at::Tensor& distances,
                         const OptionalTensor& dropout, double scale, int64_t horizon,
                         int64_t hidden) {
  const c10::cuda::CUDAGuard guard(content.device());
  auto probabilities = at::empty_like(content);
  at::Tensor dropped;
  if (dropout) dropped = at::empty_like(content);
  relative_softmax(number(content.scalar_type()),
                   {content.size(0), content.size(1), content.size(2), distances.size(2)}, scale,
                   horizon, hidden, content.const_data_ptr(), distances.const_data_ptr(),
                   pointer(dropout), probabilities.mutable_data_ptr(),
                   dropout ? dropped.mutable_data_ptr() : nullptr,
                   c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {probabilities, dropped};
}

Pair relative_softmax_backward_op(const at::Tensor& g, const at::Tensor& probabilities,
                                  const OptionalTensor& dropout, double scale, int64_t columns) {
  const c10::cuda::CUDAGuard guard(g.device());
  auto for_content = at::empty_like(probabilities);
  auto for_distances = at::empty({g.size(0), g.size(1), columns}, probabilities.options());
  relative_softmax_backward(number(g.scalar_type()), {g.size(0), g.size(1), g.size(2), columns},
                            scale, g.const_data_ptr(), probabilities.const_data_ptr(),
                            pointer(dropout), for_content.mutable_data_ptr(),
                            for_distances.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {for_content, for_distances};
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("relative_softmax", &relative_softmax_op);
  library.impl("relative_softmax_backward", &relative_softmax_backward_op);
}

}  // namespace deq::kernels::cuda

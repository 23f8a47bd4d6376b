#include "kernels/images/upsample_cuda.h"
#include "kernels/common/operators.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <optional>
#include <tuple>

#include "kernels/images/images_tensors_cuda.h"

// The plugin's side of upsample.h: tensors in, kernels launched on torch's current stream.

namespace deq::kernels::cuda {
namespace {

at::Tensor upsample_add_op(const at::Tensor& small, const OptionalTensor& x,
                           const OptionalTensor& mask, bool relu) {
  const c10::cuda::CUDAGuard guard(small.device());
  const auto type = small.scalar_type();
  Images images(vector_width(small.size(1), small.element_size()));
  auto y = empty_images({small.size(0), small.size(1), 2 * small.size(2), 2 * small.size(3)},
                        small.options());
  upsample_add(number(type), {small.size(0), small.size(1), small.size(2), small.size(3)},
               images.pointer(small, type), images.pointer(x, type), images.pointer(mask, type),
               relu, y.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

std::tuple<at::Tensor, at::Tensor> upsample_add_backward_op(const at::Tensor& g,
                                                            const OptionalTensor& mask) {
  const c10::cuda::CUDAGuard guard(g.device());
  const auto type = g.scalar_type();
  const int64_t height = g.size(2) / 2, width = g.size(3) / 2;
  Images images(vector_width(g.size(1), g.element_size()));
  auto for_small = empty_images({g.size(0), g.size(1), height, width}, g.options());
  at::Tensor for_x;
  if (mask) for_x = empty_images(g.sizes(), g.options());
  upsample_add_backward(number(type), {g.size(0), g.size(1), height, width},
                        images.pointer(g, type), images.pointer(mask, type),
                        for_small.mutable_data_ptr(), mask ? for_x.mutable_data_ptr() : nullptr,
                        c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {for_small, for_x};
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("upsample_add", &upsample_add_op);
  library.impl("upsample_add_backward", &upsample_add_backward_op);
}

}  // namespace deq::kernels::cuda

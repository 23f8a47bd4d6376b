#include "kernels/images/mask_images_cuda.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <optional>

#include "kernels/images/images_tensors_cuda.h"

// The plugin's side of mask_images.h.

namespace deq::kernels::cuda {
namespace {

at::Tensor mask_images_op(const at::Tensor& x, const at::Tensor& mask,
                          const std::optional<at::Tensor>& addend) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto type = x.scalar_type();
  Images images(static_cast<int>(16 / x.element_size()));
  auto y = empty_images(x.sizes(), x.options());
  mask_images(number(type), {x.size(0), x.size(1), x.size(2) * x.size(3)}, images.pointer(x, type),
              mask.const_data_ptr(), images.pointer(addend, type), y.mutable_data_ptr(),
              c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("mask_images", &mask_images_op);
}

}  // namespace deq::kernels::cuda

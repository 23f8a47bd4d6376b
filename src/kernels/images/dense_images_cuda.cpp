#include "kernels/images/dense_images_cuda.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include "kernels/images/images_tensors_cuda.h"

// The plugin's side of dense_images.h.

namespace deq::kernels::cuda {
namespace {

at::Tensor dense_images_op(const at::Tensor& x, at::ScalarType type) {
  const c10::cuda::CUDAGuard guard(x.device());
  auto result = empty_images(x.sizes(), x.options().dtype(type));
  dense_images({x.const_data_ptr(), x.stride(0)}, x.size(0),
               c10::multiply_integers(x.sizes().slice(1)), number(type), result.mutable_data_ptr(),
               c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

void spread_images_op(const at::Tensor& dense, const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(dense.device());
  spread_images(dense.const_data_ptr(), number(dense.scalar_type()), dense.size(0),
                c10::multiply_integers(dense.sizes().slice(1)), out.mutable_data_ptr<float>(),
                out.stride(0), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("spread_images", &spread_images_op);
  library.impl("dense_images", &dense_images_op);
}

}  // namespace deq::kernels::cuda

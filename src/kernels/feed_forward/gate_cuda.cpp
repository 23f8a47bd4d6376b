#include "kernels/feed_forward/gate_cuda.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <tuple>

#include "kernels/common/vectors_cuda.h"
#include "kernels/images/images_tensors_cuda.h"

// The plugin's side of gate.h.

namespace deq::kernels::cuda {
namespace {

GateShape gate_shape(const at::Tensor& h, int64_t rows) {
  return {rows, rows == 0 ? 0 : h.numel() / rows};
}

at::Tensor gate_op(const at::Tensor& both, at::IntArrayRef shape, int64_t rows) {
  const c10::cuda::CUDAGuard guard(both.device());
  auto h = at::empty(shape, both.options());
  const auto from = with_aligned_vectors(both);
  gate(number(both.scalar_type()), gate_shape(h, rows), from.const_data_ptr(), h.mutable_data_ptr(),
       c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return h;
}

std::tuple<at::Tensor, at::Tensor> gate_backward_op(const at::Tensor& g, const at::Tensor& both,
                                                    int64_t rows) {
  const c10::cuda::CUDAGuard guard(both.device());
  const auto type = both.scalar_type();
  auto for_both = at::empty(both.sizes(), both.options());
  auto h = at::empty(g.sizes(), both.options());
  const auto pulled = with_aligned_vectors(g.to(type)), from = with_aligned_vectors(both);
  gate_backward(number(type), gate_shape(h, rows), pulled.const_data_ptr(), from.const_data_ptr(),
                for_both.mutable_data_ptr(), h.mutable_data_ptr(),
                c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {for_both, h};
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("gate", &gate_op);
  library.impl("gate_backward", &gate_backward_op);
}

}  // namespace deq::kernels::cuda

#include "kernels/recurrence/forget_pool_cuda.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <tuple>

#include "kernels/common/vectors_cuda.h"
#include "kernels/images/images_tensors_cuda.h"

// The plugin's side of forget_pool.h.

namespace deq::kernels::cuda {
namespace {

PoolShape pool_shape(const at::Tensor& y) {
  return {y.size(0), y.size(1), y.size(2) / 3};
}

std::tuple<at::Tensor, at::Tensor> forget_pool_op(const at::Tensor& y, const at::Tensor& start) {
  const c10::cuda::CUDAGuard guard(y.device());
  const auto shape = pool_shape(y);
  const auto from = with_aligned_vectors(y), first = with_aligned_vectors(start);
  auto h = at::empty({shape.rows, shape.positions, shape.features}, y.options());
  auto c = at::empty(h.sizes(), start.options());
  forget_pool(number(y.scalar_type()), shape, from.const_data_ptr(), first.const_data_ptr(),
              h.mutable_data_ptr(), c.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {h, c};
}

std::tuple<at::Tensor, at::Tensor> forget_pool_backward_op(const at::Tensor& g,
                                                           const at::Tensor& g_last,
                                                           const at::Tensor& y,
                                                           const at::Tensor& start,
                                                           const at::Tensor& c) {
  const c10::cuda::CUDAGuard guard(y.device());
  const auto type = y.scalar_type();
  const auto pulled = with_aligned_vectors(g.to(type));
  const auto last = with_aligned_vectors(g_last.to(c.scalar_type()));
  const auto from = with_aligned_vectors(y), first = with_aligned_vectors(start);
  auto for_y = at::empty(y.sizes(), y.options()), for_start = at::empty_like(first);
  forget_pool_backward(number(type), pool_shape(y),
                       {.g = pulled.const_data_ptr(),
                        .g_last = last.const_data_ptr(),
                        .y = from.const_data_ptr(),
                        .start = first.const_data_ptr(),
                        .c = c.const_data_ptr()},
                       for_y.mutable_data_ptr(), for_start.mutable_data_ptr(),
                       c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {for_y, for_start};
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("forget_pool", &forget_pool_op);
  library.impl("forget_pool_backward", &forget_pool_backward_op);
}

}  // namespace deq::kernels::cuda

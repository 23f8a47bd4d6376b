#include "kernels/norms/sum_norm_cuda.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <tuple>
#include <vector>

#include "kernels/common/vectors_cuda.h"
#include "kernels/images/images_tensors_cuda.h"

// The plugin's side of sum_norm.h.

namespace deq::kernels::cuda {
namespace {

template <class Arguments>
void run_sum_norm(const at::Tensor& like, bool over_tokens, const Arguments& arguments) {
  const TokenShape shape{like.size(0), like.size(1), like.size(2)};
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const auto type = number(like.scalar_type());
  over_tokens ? norm_over_tokens(type, shape, arguments, stream)
              : norm_over_features(type, shape, arguments, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

std::tuple<at::Tensor, at::Tensor> sum_norm_op(const at::Tensor& a, const at::Tensor& b,
                                               bool over_tokens) {
  const c10::cuda::CUDAGuard guard(a.device());
  const auto type = a.scalar_type();
  auto y = at::empty(a.sizes(), a.options());
  const std::vector<int64_t> means{a.size(0), over_tokens ? 1 : a.size(1),
                                   over_tokens ? a.size(2) : 1};
  auto r = at::empty(means, a.options().dtype(type == at::kDouble ? at::kDouble : at::kFloat));
  const auto first = with_aligned_vectors(a), second = with_aligned_vectors(b);
  run_sum_norm(a, over_tokens,
               SumNormForward{.a = first.const_data_ptr(),
                              .b = second.const_data_ptr(),
                              .y = y.mutable_data_ptr(),
                              .r = r.mutable_data_ptr()});
  return {y, r};
}

at::Tensor sum_norm_backward_op(const at::Tensor& g, const at::Tensor& y, const at::Tensor& r,
                                bool over_tokens) {
  const c10::cuda::CUDAGuard guard(g.device());
  auto for_s = at::empty(y.sizes(), y.options());
  const auto pulled = with_aligned_vectors(g.to(y.scalar_type())), out = with_aligned_vectors(y);
  run_sum_norm(y, over_tokens,
               SumNormBackward{.g = pulled.const_data_ptr(),
                               .y = out.const_data_ptr(),
                               .r = r.const_data_ptr(),
                               .for_s = for_s.mutable_data_ptr()});
  return for_s;
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("sum_norm", &sum_norm_op);
  library.impl("sum_norm_backward", &sum_norm_backward_op);
}

}  // namespace deq::kernels::cuda

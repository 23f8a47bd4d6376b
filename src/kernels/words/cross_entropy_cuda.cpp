#include "kernels/words/cross_entropy_cuda.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <tuple>

#include "kernels/images/images_tensors_cuda.h"

// The plugin's side of cross_entropy.h.

namespace deq::kernels::cuda {
namespace {

std::tuple<at::Tensor, at::Tensor> word_costs_op(const at::Tensor& scores,
                                                 const at::Tensor& targets) {
  const c10::cuda::CUDAGuard guard(scores.device());
  const auto type = scores.scalar_type();
  const auto sums = scores.options().dtype(type == at::kDouble ? at::kDouble : at::kFloat);
  auto log_sums = at::empty({scores.size(0)}, sums), costs = at::empty({scores.size(0)}, sums);
  word_costs(number(type), {scores.size(0), scores.size(1)}, scores.const_data_ptr(),
             targets.const_data_ptr<int64_t>(), log_sums.mutable_data_ptr(),
             costs.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {log_sums, costs};
}

at::Tensor word_costs_backward_op(const at::Tensor& g, const at::Tensor& scores,
                                  const at::Tensor& targets, const at::Tensor& log_sums) {
  const c10::cuda::CUDAGuard guard(scores.device());
  auto pull = at::empty_like(scores);
  word_costs_backward(number(scores.scalar_type()), {scores.size(0), scores.size(1)},
                      g.const_data_ptr(), scores.const_data_ptr(),
                      targets.const_data_ptr<int64_t>(), log_sums.const_data_ptr(),
                      pull.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return pull;
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("word_costs", &word_costs_op);
  library.impl("word_costs_backward", &word_costs_backward_op);
}

}  // namespace deq::kernels::cuda

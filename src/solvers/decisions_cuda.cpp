#include "solvers/decisions_cuda.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include "solvers/decisions_operators.h"

// The plugin's side of decisions.h: kernels launched on torch's current stream.

namespace deq::decisions::cuda {
namespace {

void judge_op(const at::Tensor& sums, at::Tensor& samples, at::Tensor& marks, at::Tensor& residuals,
              at::Tensor& active, int64_t evaluation, double atol, double rtol, bool whole_batch,
              int64_t stagnation_window, double divergence_factor, bool start_is_candidate) {
  const c10::cuda::CUDAGuard guard(sums.device());
  judge(judge_arguments(sums, samples, marks, residuals, evaluation, atol, rtol, whole_batch,
                        stagnation_window, divergence_factor, start_is_candidate),
        active.data_ptr<int>(), c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void anderson_op(const at::Tensor& sums, const at::Tensor& samples, const at::Tensor& marks,
                 at::Tensor& gram, at::Tensor& histories, at::Tensor& coefficients, int64_t steps,
                 double beta, double ridge, bool relative_ridge, double restart_factor) {
  const c10::cuda::CUDAGuard guard(sums.device());
  TORCH_CHECK(gram.size(1) <= kMaxAndersonMemory, "anderson_weights: memory = ", gram.size(1),
              ", must be ≤ ", kMaxAndersonMemory);
  anderson(anderson_arguments(sums, samples, marks, gram, histories, coefficients, steps, beta,
                              ridge, relative_ridge, restart_factor),
           c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void broyden_op(const at::Tensor& sums, const at::Tensor& marks, at::Tensor& gram,
                at::Tensor& histories, at::Tensor& coefficients, int64_t steps, bool full) {
  const c10::cuda::CUDAGuard guard(sums.device());
  TORCH_CHECK(steps <= kMaxBroydenSteps, "broyden_direction: ", steps, " steps, must be ≤ ",
              kMaxBroydenSteps);
  broyden(broyden_arguments(sums, marks, gram, histories, coefficients, steps, full),
          c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void limited_op(const at::Tensor& sums, const at::Tensor& marks, at::Tensor& pairs,
                at::Tensor& skipped, at::Tensor& update_weights, at::Tensor& step_weights,
                int64_t capacity, int64_t steps, bool drop) {
  const c10::cuda::CUDAGuard guard(sums.device());
  limited_broyden(limited_arguments(sums, marks, pairs, skipped, update_weights, step_weights,
                                    capacity, steps, drop),
                  c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("judge", &judge_op);
  library.impl("anderson_weights", &anderson_op);
  library.impl("broyden_direction", &broyden_op);
  library.impl("limited_broyden_weights", &limited_op);
}

}  // namespace deq::decisions::cuda

#include "kernels/feed_forward/token_mixer_cuda.h"

#include <ATen/ops/constant_pad_nd.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <tuple>

#include "kernels/common/vectors_cuda.h"

// The plugin's side of token_mixer.h.

namespace deq::kernels::cuda {
namespace {

MixerShape mixer_shape(const at::Tensor& x, int64_t inner) {
  return {x.size(0), x.size(1), x.size(2), inner};
}

bool mix_tokens_fits_op(const at::Tensor& x, int64_t inner) {
  const c10::cuda::CUDAGuard guard(x.device());
  return mixer_fits(mixer_shape(x, inner));
}

/// With rows that begin where vectors do: itself, or a copy with zeros after each.
at::Tensor with_aligned_rows(const at::Tensor& matrix) {
  constexpr int64_t kVector = 8;
  const auto columns = matrix.size(1);
  const auto address = reinterpret_cast<std::uintptr_t>(matrix.const_data_ptr());
  if (matrix.stride(1) == 1 && matrix.stride(0) % kVector == 0 &&
      address % (kVector * sizeof(at::BFloat16)) == 0) {
    return matrix;
  }
  return at::constant_pad_nd(matrix, {0, (kVector - columns % kVector) % kVector});
}

/// Both matrices as the kernels take them, as long as this lives.
class Matrices {
 public:
  Matrices(const at::Tensor& gate_up, const at::Tensor& down)
      : gate_up_(with_aligned_rows(gate_up)), down_(with_aligned_vectors(down)) {}

  MixerMatrices pointers() const {
    return {gate_up_.const_data_ptr(), gate_up_.stride(0), down_.const_data_ptr()};
  }

 private:
  at::Tensor gate_up_, down_;
};

std::tuple<at::Tensor, at::Tensor> mix_tokens_op(const at::Tensor& x, const at::Tensor& gate_up,
                                                 const at::Tensor& down) {
  const c10::cuda::CUDAGuard guard(x.device());
  const Matrices matrices(gate_up, down);
  const auto from = with_aligned_vectors(x);
  auto y = at::empty(x.sizes(), x.options());
  auto r = at::empty({x.size(0), 1, x.size(2)}, x.options().dtype(at::kFloat));
  mix_tokens(mixer_shape(x, down.size(1)),
             {.matrices = matrices.pointers(),
              .x = from.const_data_ptr(),
              .y = y.mutable_data_ptr(),
              .r = r.mutable_data_ptr()},
             c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {y, r};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> mix_tokens_backward_op(const at::Tensor& for_s,
                                                                      const at::Tensor& x,
                                                                      const at::Tensor& gate_up,
                                                                      const at::Tensor& down) {
  const c10::cuda::CUDAGuard guard(x.device());
  const Matrices matrices(gate_up, down);
  const auto pulled = with_aligned_vectors(for_s), from = with_aligned_vectors(x);
  const auto inner = down.size(1);
  auto for_x = at::empty(x.sizes(), x.options());
  auto for_both = at::empty({x.size(0), 2 * inner, x.size(2)}, x.options());
  auto hidden = at::empty({x.size(0), inner, x.size(2)}, x.options());
  mix_tokens_backward(mixer_shape(x, inner),
                      {.matrices = matrices.pointers(),
                       .for_s = pulled.const_data_ptr(),
                       .x = from.const_data_ptr(),
                       .for_x = for_x.mutable_data_ptr(),
                       .for_both = for_both.mutable_data_ptr(),
                       .hidden = hidden.mutable_data_ptr()},
                      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {for_x, for_both, hidden};
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("mix_tokens", &mix_tokens_op);
  library.impl("mix_tokens_backward", &mix_tokens_backward_op);
  library.impl("mix_tokens_fits", &mix_tokens_fits_op);
}

}  // namespace deq::kernels::cuda

#include "kernels/feed_forward/sample_masks_cuda.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <optional>

#include "core/require.h"

// The plugin's side of sample_masks.h.

namespace deq::kernels::cuda {
namespace {

const void* dense(const at::Tensor& tensor, at::ScalarType type) {
  require(tensor.is_contiguous() && tensor.scalar_type() == type,
          "mask_samples_: needs dense tensors of one type");
  return tensor.const_data_ptr();
}

void mask_samples_op(const at::Tensor& rows, const at::Tensor& masks,
                     const std::optional<at::Tensor>& positive) {
  const c10::cuda::CUDAGuard guard(rows.device());
  const MaskedRows shape{
      .samples = masks.size(0), .rows = rows.size(0) / masks.size(0), .numbers = rows.size(1)};
  require(shape.numbers % 8 == 0 && masks.numel() == shape.samples * shape.numbers,
          "mask_samples_: rows {} and masks {}, must agree in a last size that is a multiple of 8",
          rows.sizes(), masks.sizes());
  const auto type = rows.scalar_type();
  require(type == at::kBFloat16 || type == at::kFloat,
          "mask_samples_: needs bfloat16 or float32, not {}", type);
  dense(rows, type);
  mask_samples(type == at::kFloat ? Number::Float32 : Number::BFloat16, shape,
               rows.mutable_data_ptr(), dense(masks, type),
               positive ? dense(*positive, type) : nullptr, c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("mask_samples_", &mask_samples_op);
}

}  // namespace deq::kernels::cuda

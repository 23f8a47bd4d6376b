#include "kernels/norms/group_norm_cuda.h"
#include "kernels/common/operators.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <optional>
#include <tuple>
#include <vector>

#include "kernels/images/images_tensors_cuda.h"

// The plugin's side of group_norm.h: tensors in, kernels launched on torch's current stream.

namespace deq::kernels::cuda {
namespace {

/// Of statistics, weights and sums.
at::TensorOptions sums_like(const at::Tensor& x) {
  return x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

GroupNormShape shape_of(const at::Tensor& x, int64_t groups) {
  return {x.size(0), x.size(1), groups, x.size(2) * x.size(3)};
}

int width_of(const at::Tensor& x, const GroupNormShape& shape) {
  return vector_width(shape.channels / shape.groups, x.element_size());
}

at::Tensor empty_like(const at::Tensor& x, at::ScalarType type) {
  return empty_images(x.sizes(), x.options().dtype(type));
}

/// Weight or bias, or a group's statistics, in the type of the sums.
class Numbers {
 public:
  explicit Numbers(const at::Tensor& x) : type_(sums_like(x).dtype().toScalarType()) {}

  const void* pointer(const OptionalTensor& numbers) {
    if (!numbers || !numbers->defined()) return nullptr;
    kept_.push_back(numbers->to(type_).contiguous());
    return kept_.back().const_data_ptr();
  }

 private:
  at::ScalarType type_;
  std::vector<at::Tensor> kept_;
};

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_op(
    const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
    const OptionalTensor& addend, int64_t groups, double eps, bool relu,
    std::optional<at::ScalarType> type, const OptionalTensor& target) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto in = x.scalar_type(), out = type.value_or(in);
  const auto shape = shape_of(x, groups);
  Images images(width_of(x, shape));
  Numbers numbers(x);
  const bool fits = target && are_ready(*target, out, width_of(x, shape));
  auto y = fits ? *target : empty_like(x, out);
  auto mean = at::empty({shape.batch, groups}, sums_like(x)), rstd = at::empty_like(mean);
  group_norm({number(in), number(out)}, shape,
             {.x = images.pointer(x, in),
              .addend = images.pointer(addend, in),
              .weight = numbers.pointer(weight),
              .bias = numbers.pointer(bias),
              .y = {y.mutable_data_ptr(), y.stride(0)},
              .mean = mean.mutable_data_ptr(),
              .rstd = rstd.mutable_data_ptr(),
              .eps = eps,
              .relu = relu},
             c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (target && !fits) y = target->copy_(y);
  return {y, mean, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> group_norm_backward_op(
    const at::Tensor& g, const at::Tensor& x, const OptionalTensor& y, const at::Tensor& mean,
    const at::Tensor& rstd, const OptionalTensor& weight, bool affine, bool addend) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto in = x.scalar_type(), out = g.scalar_type();
  const auto shape = shape_of(x, mean.size(1));
  Images images(width_of(x, shape));
  Numbers numbers(x);
  auto for_x = empty_like(x, in);
  at::Tensor for_addend, sums;
  if (addend && y) for_addend = empty_like(x, in);
  if (affine) sums = at::empty({2, shape.batch, shape.channels}, sums_like(x));
  group_norm_backward({number(in), number(out)}, shape,
                      {.g = images.pointer(g, out),
                       .x = images.pointer(x, in),
                       .y = images.pointer(y, out),
                       .mean = numbers.pointer(mean),
                       .rstd = numbers.pointer(rstd),
                       .weight = numbers.pointer(weight),
                       .for_x = for_x.mutable_data_ptr(),
                       .for_addend = for_addend.defined() ? for_addend.mutable_data_ptr() : nullptr,
                       .sums = affine ? sums.mutable_data_ptr() : nullptr},
                      c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (!affine) return {for_x, {}, {}, for_addend};
  const auto totals = sums.sum(1);
  return {for_x, totals[1], totals[0], for_addend};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_double_backward_op(
    const at::Tensor& v, const OptionalTensor& v_addend, const at::Tensor& g, const at::Tensor& x,
    const OptionalTensor& y, const at::Tensor& mean, const at::Tensor& rstd,
    const OptionalTensor& weight, bool affine) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto in = x.scalar_type(), out = g.scalar_type();
  const auto shape = shape_of(x, mean.size(1));
  Images images(width_of(x, shape));
  Numbers numbers(x);
  auto for_g = empty_like(x, out), for_x = empty_like(x, in);
  at::Tensor sums;
  if (affine) sums = at::empty({shape.batch, shape.channels}, sums_like(x));
  group_norm_double_backward({number(in), number(out)}, shape,
                             {.v = images.pointer(v, in),
                              .v_addend = images.pointer(v_addend, in),
                              .g = images.pointer(g, out),
                              .x = images.pointer(x, in),
                              .y = images.pointer(y, out),
                              .mean = numbers.pointer(mean),
                              .rstd = numbers.pointer(rstd),
                              .weight = numbers.pointer(weight),
                              .for_g = for_g.mutable_data_ptr(),
                              .for_x = for_x.mutable_data_ptr(),
                              .sums = affine ? sums.mutable_data_ptr() : nullptr},
                             c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {for_g, for_x, affine ? sums.sum(0) : at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("group_norm", &group_norm_op);
  library.impl("group_norm_backward", &group_norm_backward_op);
  library.impl("group_norm_double_backward", &group_norm_double_backward_op);
}

}  // namespace deq::kernels::cuda

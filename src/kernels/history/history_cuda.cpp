#include "kernels/history/history_cuda.h"

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>
#include <optional>
#include <vector>

// The plugin's side of history.h: tensors in, kernels launched on torch's current stream. A history
// of more than kMaxRows rows takes several launches.

namespace deq::kernels::cuda {
namespace {

template <class T>
std::vector<Rows<T>> in_groups(at::TensorList rows) {
  std::vector<Rows<T>> groups;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % kMaxRows == 0) groups.push_back({});
    auto& group = groups.back();
    if (rows[i].scalar_type() == at::kBFloat16) group.halves |= uint64_t{1} << group.count;
    group.data[group.count++] = rows[i].const_data_ptr();
  }
  return groups;
}

at::Tensor doubles(at::IntArrayRef shape, const at::Tensor& like) {
  return at::empty(shape, like.options().dtype(at::kDouble));
}

at::Tensor dots_on_device(const at::Tensor& v, at::TensorList rows) {
  const int64_t batch = v.size(0), dim = v.size(1);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  std::vector<at::Tensor> parts{doubles({batch, 0}, v)};
  AT_DISPATCH_FLOATING_TYPES(v.scalar_type(), "dots", [&] {
    for (const auto& group : in_groups<scalar_t>(rows)) {
      auto sums = doubles({batch, group.count}, v);
      auto partial = doubles({batch, tiles(dim), group.count}, v);
      dots<scalar_t>(v.const_data_ptr<scalar_t>(), group, partial.data_ptr<double>(),
                     sums.data_ptr<double>(), batch, dim, stream);
      parts.push_back(sums);
    }
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return parts.size() == 2 ? parts[1] : at::cat(parts, 1);
}

at::Tensor dots_op(const at::Tensor& v, at::TensorList rows) {
  const c10::cuda::CUDAGuard guard(v.device());
  return dots_on_device(v, rows);
}

template <class T>
const T* data_of(const std::optional<at::Tensor>& tensor) {
  return tensor ? tensor->const_data_ptr<T>() : nullptr;
}

template <class T>
Rows<T> one_group(at::TensorList rows) {
  const auto groups = in_groups<T>(rows);
  return groups.empty() ? Rows<T>{} : groups[0];
}

at::Tensor observe_op(const at::Tensor& f, const at::Tensor& z, at::Tensor& g, at::TensorList rows,
                      const std::optional<at::Tensor>& newest,
                      const std::optional<at::Tensor>& marks) {
  const c10::cuda::CUDAGuard guard(z.device());
  const int64_t batch = z.size(0), dim = z.size(1);
  const auto fused = std::min<size_t>(rows.size(), kMaxRows);
  TORCH_CHECK(!newest || fused == rows.size(), "observe: ", rows.size(),
              " rows with their newest, must be ≤ ", kMaxRows);
  const auto width = static_cast<int64_t>(newest ? 2 * fused : fused) + 2;
  auto sums = doubles({batch, width}, z);
  auto partial = doubles({batch, tiles(dim), width}, z);
  AT_DISPATCH_FLOATING_TYPES(z.scalar_type(), "observe", [&] {
    observe<scalar_t>(f.const_data_ptr<scalar_t>(), z.const_data_ptr<scalar_t>(),
                      g.data_ptr<scalar_t>(), one_group<scalar_t>(rows.slice(0, fused)),
                      newest ? one_group<scalar_t>(*newest) : Rows<scalar_t>{},
                      data_of<uint8_t>(marks), partial.data_ptr<double>(), sums.data_ptr<double>(),
                      batch, dim, c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (fused == rows.size()) return sums;
  return at::cat({sums, dots_on_device(g, rows.slice(fused))}, 1);
}

void advance_op(at::TensorList rows, const at::Tensor& coefficients, const at::Tensor& z,
                at::Tensor& best, const at::Tensor& marks, std::optional<at::Tensor> step,
                std::optional<at::Tensor> next) {
  const c10::cuda::CUDAGuard guard(z.device());
  TORCH_CHECK(rows.size() <= kMaxRows, "advance: ", rows.size(), " rows, must be ≤ ", kMaxRows);
  const StepTarget target{step ? step->mutable_data_ptr() : nullptr,
                          step && step->scalar_type() == at::kBFloat16};
  AT_DISPATCH_FLOATING_TYPES(z.scalar_type(), "advance", [&] {
    advance<scalar_t>(one_group<scalar_t>(rows), coefficients.const_data_ptr<double>(),
                      z.const_data_ptr<scalar_t>(), best.data_ptr<scalar_t>(),
                      marks.const_data_ptr<uint8_t>(), target,
                      next ? next->data_ptr<scalar_t>() : nullptr, z.size(0), z.size(1),
                      c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

at::Tensor combine_op(at::TensorList rows, const at::Tensor& coefficients, at::Tensor& out,
                      const std::optional<at::Tensor>& base, std::optional<at::Tensor> moved,
                      at::TensorList dot_rows) {
  const c10::cuda::CUDAGuard guard(out.device());
  const int64_t batch = out.size(0), dim = out.size(1);
  const auto stride = static_cast<int64_t>(rows.size());
  AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "combine", [&] {
    auto groups = in_groups<scalar_t>(rows);
    if (groups.empty()) groups.push_back({});
    for (size_t i = 0; i < groups.size(); ++i) {
      const bool last = i + 1 == groups.size() && moved.has_value();
      combine<scalar_t>(groups[i], coefficients.const_data_ptr<double>(), stride,
                        static_cast<int64_t>(i) * kMaxRows, i > 0, out.data_ptr<scalar_t>(),
                        last ? base->const_data_ptr<scalar_t>() : nullptr,
                        last ? moved->data_ptr<scalar_t>() : nullptr, batch, dim,
                        c10::cuda::getCurrentCUDAStream());
    }
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return dots_on_device(out, dot_rows);
}

}  // namespace

TORCH_LIBRARY_IMPL(deq, CUDA, library) {
  library.impl("observe", &observe_op);
  library.impl("advance", &advance_op);
  library.impl("dots", &dots_op);
  library.impl("combine", &combine_op);
}

}  // namespace deq::kernels::cuda

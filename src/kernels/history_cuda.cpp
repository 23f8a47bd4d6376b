#include "kernels/history_cuda.h"

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
    group.data[group.count++] = rows[i].const_data_ptr<T>();
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

at::Tensor observe_op(const at::Tensor& f, const at::Tensor& z, at::Tensor& g,
                      at::TensorList rows) {
  const c10::cuda::CUDAGuard guard(z.device());
  const int64_t batch = z.size(0), dim = z.size(1);
  const auto fused = std::min<size_t>(rows.size(), kMaxRows);
  const auto width = static_cast<int64_t>(fused) + 2;
  auto sums = doubles({batch, width}, z);
  auto partial = doubles({batch, tiles(dim), width}, z);
  AT_DISPATCH_FLOATING_TYPES(z.scalar_type(), "observe", [&] {
    const auto groups = in_groups<scalar_t>(rows.slice(0, fused));
    observe<scalar_t>(f.const_data_ptr<scalar_t>(), z.const_data_ptr<scalar_t>(),
                      g.data_ptr<scalar_t>(), groups.empty() ? Rows<scalar_t>{} : groups[0],
                      partial.data_ptr<double>(), sums.data_ptr<double>(), batch, dim,
                      c10::cuda::getCurrentCUDAStream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (fused == rows.size()) return sums;
  return at::cat({sums, dots_on_device(g, rows.slice(fused))}, 1);
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
  library.impl("dots", &dots_op);
  library.impl("combine", &combine_op);
}

}  // namespace deq::kernels::cuda

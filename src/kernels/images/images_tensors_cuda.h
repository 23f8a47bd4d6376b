#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/images/images_cuda.h"

// Torch's side of images_cuda.h.

namespace deq::kernels::cuda {

inline Number number(at::ScalarType type) {
  TORCH_CHECK(type == at::kFloat || type == at::kDouble || type == at::kBFloat16, "images of type ",
              type, ", must be float32, float64 or bfloat16");
  if (type == at::kDouble) return Number::Float64;
  return type == at::kFloat ? Number::Float32 : Number::BFloat16;
}

inline at::Tensor empty_images(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::empty(sizes, options, at::MemoryFormat::ChannelsLast);
}

/// Whether kernels can take them as they lie, `width` numbers at once.
inline bool are_ready(const at::Tensor& images, at::ScalarType type, int width) {
  const auto bytes = std::min<int64_t>(16, width * images.element_size());
  const auto address = reinterpret_cast<std::uintptr_t>(images.const_data_ptr());
  return images.scalar_type() == type && images.stride(1) == 1 &&
         images.stride(3) == images.size(1) &&
         images.stride(2) == images.size(3) * images.size(1) &&
         address % static_cast<std::uintptr_t>(bytes) == 0 &&
         images.stride(0) * images.element_size() % bytes == 0;
}

/// Images as kernels take them. Copies, where they are needed, live as long as this.
class Images {
 public:
  /// Threads read `width` numbers at once.
  explicit Images(int width) : width_(width) {}

  ImagePointer pointer(const std::optional<at::Tensor>& image, at::ScalarType type) {
    if (!image || !image->defined()) return {nullptr, 0};
    if (are_ready(*image, type, width_)) return {image->const_data_ptr(), image->stride(0)};
    kept_.push_back(empty_images(image->sizes(), image->options().dtype(type)).copy_(*image));
    return {kept_.back().const_data_ptr(), kept_.back().stride(0)};
  }

 private:
  int width_;
  std::vector<at::Tensor> kept_;
};

}  // namespace deq::kernels::cuda

#include "kernels/images/images.h"

#include <torch/types.h>

#include <vector>

#include "kernels/common/block_cache.h"

namespace deq::kernels {

at::Tensor dense_pixels(const at::Tensor& x) {
  const bool dense =
      x.stride(1) == 1 && x.stride(3) == x.size(1) && x.stride(2) == x.size(3) * x.size(1);
  // Not contiguous(ChannelsLast), which trusts strides that are ambiguous where a size is 1.
  return dense ? x : x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
}

at::Tensor empty_images(at::IntArrayRef sizes, const at::TensorOptions& options) {
  const auto channels = sizes[1], row = sizes[3] * channels;
  const std::vector<int64_t> strides{sizes[2] * row, 1, row, channels};
  return empty_reused(sizes, strides, options);
}

}  // namespace deq::kernels

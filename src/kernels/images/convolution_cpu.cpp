#include <ATen/Parallel.h>

#include <vector>

#include "kernels/common/block_cache.h"
#include "kernels/images/convolution.h"
#include "kernels/images/images.h"
#include "kernels/images/winograd.h"

namespace deq::kernels::cpu {
namespace {

// Weights are transformed to 36 numbers per pair of channels, which are read once per block of
// tiles: beyond this they no longer come from the second-level cache.
constexpr int64_t kMostPairs = 32'768;

}  // namespace

bool winograd_serves(const at::Tensor& x, const at::Tensor& w, int64_t stride) {
  const bool floats = x.scalar_type() == at::kFloat && w.scalar_type() == at::kFloat;
  const bool kernel = w.size(2) == 3 && w.size(3) == 3 && stride == 1;
  return floats && kernel && x.is_cpu() && w.size(0) % winograd::kLanes == 0 &&
         w.size(1) % winograd::kLanes == 0 && w.size(0) * w.size(1) <= kMostPairs;
}

at::Tensor winograd_weights(const at::Tensor& w) {
  const winograd::Shape shape{.in = w.size(1), .out = w.size(0)};
  auto weights = empty_reused({shape.weights()}, w.options());
  winograd::transform_weights(shape, w.permute({2, 3, 1, 0}).contiguous().const_data_ptr<float>(),
                              weights.data_ptr<float>());
  return weights;
}

at::Tensor winograd3x3(const at::Tensor& x, const at::Tensor& w) {
  const auto images = dense_pixels(x);
  const winograd::Shape shape{.batch = x.size(0),
                              .height = x.size(2),
                              .width = x.size(3),
                              .in = w.size(1),
                              .out = w.size(0),
                              .x_stride = images.stride(0)};
  auto y = empty_images({shape.batch, shape.out, shape.height, shape.width}, x.options());
  const auto weights = winograd_weights(w);
  const auto *const from = images.const_data_ptr<float>(), *const u =
                                                               weights.const_data_ptr<float>();
  auto* const to = y.data_ptr<float>();
  at::parallel_for(0, shape.blocks(), 1, [&](int64_t first, int64_t last) {
    std::vector<float> workspace(static_cast<size_t>(shape.workspace()));
    for (int64_t block = first; block < last; ++block) {
      winograd::convolve_block(shape, block, from, u, workspace.data(), to);
    }
  });
  return y;
}

}  // namespace deq::kernels::cpu

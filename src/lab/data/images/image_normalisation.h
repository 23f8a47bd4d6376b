#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>

#include "deq/lab/data/images/image_transform.h"
#include "lab/data/images/image_window.h"

namespace deq::lab {

/// What becomes of each value of each channel, and what stands where a window leaves the image. A
/// byte has 256 values: a table of them is exact and spares two divisions per pixel.
class Normalisation {
 public:
  explicit Normalisation(const ImageTransform& transform);

  static constexpr int64_t kOutside = 256;  ///< the entry of a channel behind those of its values
  static constexpr int64_t kEntries = kOutside + 1;

  const float* channel(int64_t index) const { return values_.data() + index * kEntries; }
  /// float32 [3 · kEntries]
  torch::Tensor table() const;

 private:
  std::array<float, size_t{3} * kEntries> values_;
};

/// A uint8 image [3, H, W] in any layout.
struct Pixels {
  explicit Pixels(const torch::Tensor& image);
  Pixels(const uint8_t* first, const ImageSize& dimensions);  ///< channels first

  const uint8_t* data;
  ImageSize size;
  int64_t channel_stride, row_stride, column_stride;
};

/// float32 [3, window.height, window.width] at `out`.
void normalise(const Pixels& image, const Window& window, const Normalisation& normalisation,
               float* out);

}  // namespace deq::lab

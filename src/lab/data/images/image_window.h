#pragma once

#include <cstdint>

#include "deq/lab/data/images/image_decode.h"
#include "deq/lab/data/images/image_transform.h"

namespace deq::lab {

/// A square of what comes out that holds the mean colour; it may reach beyond the edges.
struct Hole {
  int64_t top = 0, left = 0, side = 0;

  bool operator==(const Hole&) const = default;
};

/// The part of an image that a transform takes; it may reach beyond the image's edges.
struct Window {
  int64_t top = 0, left = 0, height = 0, width = 0;
  bool mirrored = false;
  Hole hole{};

  bool operator==(const Window&) const = default;
};

/// Draws what is random from the numbers of `key`. An image too small for the crop is an Error.
Window draw_window(const ImageTransform& transform, const ImageSize& image, uint64_t key);

/// The size that an image has before the crop is cut out of it.
ImageSize size_before_crop(const ImageTransform& transform, const ImageSize& image);

}  // namespace deq::lab

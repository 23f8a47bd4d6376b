#include "lab/data/images/image_window.h"

#include <algorithm>
#include <cmath>

#include "core/require.h"
#include "lab/base/keyed_numbers.h"

namespace deq::lab {
namespace {

int64_t rounded_size(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}

Window centred(const ImageSize& image, int64_t height, int64_t width) {
  return {.top = rounded_size(static_cast<double>(image.height - height) / 2),
          .left = rounded_size(static_cast<double>(image.width - width) / 2),
          .height = height,
          .width = width};
}

void require_room(const ImageSize& image, int64_t size, const char* what) {
  require(image.height >= size && image.width >= size,
          "the image is {} × {}{}, must be at least {} × {}", image.width, image.height, what, size,
          size);
}

Window draw_resized(const CentreCrop&, int64_t size, const ImageSize& image, KeyedNumbers&) {
  require_room(image, size, "");
  return centred(image, size, size);
}

Window draw_resized(const PaddedCrop& crop, int64_t size, const ImageSize& image,
                    KeyedNumbers& numbers) {
  const ImageSize padded{image.height + 2 * crop.padding, image.width + 2 * crop.padding};
  require_room(padded, size, " with its padding");
  return {.top = numbers.below(padded.height - size + 1) - crop.padding,
          .left = numbers.below(padded.width - size + 1) - crop.padding,
          .height = size,
          .width = size};
}

/// The largest rectangle in the middle whose shape is allowed.
Window fallback(const ResizedCrop& crop, const ImageSize& image) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  if (width / height < crop.min_ratio) {
    return centred(image, rounded_size(width / crop.min_ratio), image.width);
  }
  if (width / height > crop.max_ratio) {
    return centred(image, image.height, rounded_size(height * crop.max_ratio));
  }
  return centred(image, image.height, image.width);
}

// As torchvision's RandomResizedCrop: ten rectangles are tried, those that do not fit are thrown
// away.
Window draw_resized(const ResizedCrop& crop, int64_t, const ImageSize& image,
                    KeyedNumbers& numbers) {
  const auto area = static_cast<double>(image.height * image.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto target = area * numbers.uniform(crop.min_area, crop.max_area);
    const auto ratio =
        std::exp(numbers.uniform(std::log(crop.min_ratio), std::log(crop.max_ratio)));
    const auto height = rounded_size(std::sqrt(target / ratio));
    const auto width = rounded_size(std::sqrt(target * ratio));
    if (height < 1 || height > image.height || width < 1 || width > image.width) continue;
    return {.top = numbers.below(image.height - height + 1),
            .left = numbers.below(image.width - width + 1),
            .height = height,
            .width = width};
  }
  auto window = fallback(crop, image);
  window.height = std::max<int64_t>(window.height, 1);
  window.width = std::max<int64_t>(window.width, 1);
  return window;
}

}  // namespace

Window draw_window(const ImageTransform& transform, const ImageSize& image, uint64_t key) {
  KeyedNumbers numbers(key);
  // First, so that it does not depend on how many rectangles are tried.
  const bool mirrored = numbers.uniform() < 0.5 && transform.flip;
  auto window = std::visit(
      [&](const auto& crop) { return draw_resized(crop, transform.size, image, numbers); },
      transform.crop);
  window.mirrored = mirrored;
  if (const auto side = transform.erased; side > 0) {
    // Its middle lies anywhere in the image: at an edge less is erased.
    window.hole = {.top = numbers.below(transform.size) - side / 2,
                   .left = numbers.below(transform.size) - side / 2,
                   .side = side};
  }
  return window;
}

ImageSize size_before_crop(const ImageTransform& transform, const ImageSize& image) {
  const auto* crop = std::get_if<CentreCrop>(&transform.crop);
  if (crop == nullptr || crop->shorter_side == 0) return image;
  const auto side = crop->shorter_side;
  if (image.height <= image.width) return {side, side * image.width / image.height};
  return {side * image.height / image.width, side};
}

}  // namespace deq::lab

#include "deq/lab/data/images/mask_transform.h"

#include <algorithm>
#include <cmath>

#include "core/require.h"
#include "deq/lab/data/images/mask_decode.h"
#include "lab/base/keyed_numbers.h"
#include "lab/data/images/image_normalisation.h"
#include "lab/data/images/image_window.h"

// A random scale s followed by a crop of h × w is a window of h/s × w/s, resized to h × w: the same
// pixels, without those of the scaled image that the crop would throw away.

namespace deq::lab {
namespace {

int64_t rounded_length(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}

/// Where a window of `length` may begin: in the image where that has room for it, else such that
/// the whole image is in it.
int64_t draw_begin(int64_t room, int64_t length, KeyedNumbers& numbers) {
  const auto spare = std::abs(room - length);
  const auto begin = numbers.below(spare + 1);
  return room >= length ? begin : -begin;
}

Window draw_masked(const MaskTransform& transform, const ImageSize& image, uint64_t key) {
  if (transform.crop == MaskTransform::Crop::None) {
    return {.height = image.height, .width = image.width};
  }
  if (transform.crop == MaskTransform::Crop::Centre) {
    return {.top = (image.height - transform.height) / 2,
            .left = (image.width - transform.width) / 2,
            .height = transform.height,
            .width = transform.width};
  }
  KeyedNumbers numbers(key);
  const bool mirrored = numbers.uniform() < 0.5 && transform.flip;
  const auto scale = numbers.uniform(transform.min_scale, transform.max_scale);
  const auto scaled = [scale](int64_t side) {
    return std::max<int64_t>(rounded_length(static_cast<double>(side) / scale), 1);
  };
  const auto height = scaled(transform.height), width = scaled(transform.width);
  return {.top = draw_begin(image.height, height, numbers),
          .left = draw_begin(image.width, width, numbers),
          .height = height,
          .width = width,
          .mirrored = mirrored};
}

torch::Tensor window_of_image(const torch::Tensor& image, const Window& window,
                              const ImageSize& size) {
  // Negative widths cut off.
  auto part =
      torch::constant_pad_nd(image, {-window.left, window.left + window.width - image.size(2),
                                     -window.top, window.top + window.height - image.size(1)});
  if (window.height == size.height && window.width == size.width) return part;
  return at::_upsample_bilinear2d_aa(part.unsqueeze(0), {size.height, size.width},
                                     /*align_corners=*/false)
      .squeeze(0);
}

/// The pixel of the image in whose square the middle of each of `count` new ones lies.
std::vector<int64_t> sources(int64_t begin, int64_t length, int64_t count, bool mirrored) {
  std::vector<int64_t> pixels(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    pixels[static_cast<size_t>(i)] = begin + (2 * i + 1) * length / (2 * count);
  }
  if (mirrored) std::reverse(pixels.begin(), pixels.end());
  return pixels;
}

torch::Tensor window_of_mask(const torch::Tensor& mask, const Window& window,
                             const ImageSize& size) {
  const auto from = mask.contiguous();
  const auto rows = sources(window.top, window.height, size.height, false);
  const auto columns = sources(window.left, window.width, size.width, window.mirrored);
  auto out = torch::full({size.height, size.width}, kIgnoredLabel, torch::kUInt8);
  auto* pixel = out.data_ptr<uint8_t>();
  for (const auto row : rows) {
    const bool inside = row >= 0 && row < from.size(0);
    const auto* line = inside ? from.const_data_ptr<uint8_t>() + row * from.size(1) : nullptr;
    for (const auto column : columns) {
      if (inside && column >= 0 && column < from.size(1)) *pixel = line[column];
      ++pixel;
    }
  }
  return out;
}

}  // namespace

void validate(const MaskTransform& transform) {
  require(transform.height >= 1 && transform.width >= 1,
          "transform: a crop of {} × {}, both sides must be ≥ 1", transform.height,
          transform.width);
  require(transform.min_scale > 0 && transform.min_scale <= transform.max_scale &&
              std::isfinite(transform.max_scale),
          "transform: min_scale = {:g} and max_scale = {:g}, must be 0 < min_scale ≤ max_scale",
          transform.min_scale, transform.max_scale);
  validate(ImageTransform{.mean = transform.mean, .deviation = transform.deviation});
}

MaskedImage transform_masked(const MaskedImage& pair, const MaskTransform& transform,
                             uint64_t key) {
  validate(transform);
  const ImageSize given{pair.image.size(1), pair.image.size(2)};
  require(pair.mask.size(0) == given.height && pair.mask.size(1) == given.width,
          "the mask is {} × {}, must be {} × {} as its image", pair.mask.size(1), pair.mask.size(0),
          given.width, given.height);
  const auto window = draw_masked(transform, given, key);
  const bool whole = transform.crop == MaskTransform::Crop::None;
  const auto size = whole ? given : ImageSize{transform.height, transform.width};
  const auto image = window_of_image(pair.image, window, size);
  auto normalised = torch::empty({3, size.height, size.width});
  normalise(Pixels(image),
            {.height = size.height, .width = size.width, .mirrored = window.mirrored},
            Normalisation({.mean = transform.mean, .deviation = transform.deviation}),
            normalised.data_ptr<float>());
  return {.image = normalised, .mask = window_of_mask(pair.mask, window, size)};
}

}  // namespace deq::lab

#include "deq/lab/data/images/image_transform.h"

#include <algorithm>
#include <cmath>

#include "core/require.h"
#include "deq/lab/data/images/image_decode.h"
#include "lab/data/images/image_normalisation.h"
#include "lab/data/images/image_window.h"

namespace deq::lab {
namespace {

constexpr std::array<double, 3> kImagenetMean = {0.485, 0.456, 0.406};
constexpr std::array<double, 3> kImagenetDeviation = {0.229, 0.224, 0.225};

void validate_crop(const CentreCrop& crop, int64_t size) {
  require(crop.shorter_side == 0 || crop.shorter_side >= size,
          "transform: shorter_side = {}, must be 0 or ≥ {}, the size of what comes out",
          crop.shorter_side, size);
}

void validate_crop(const PaddedCrop& crop, int64_t) {
  require(crop.padding >= 0, "transform: padding = {}, must be ≥ 0", crop.padding);
}

void validate_crop(const ResizedCrop& crop, int64_t) {
  require(crop.min_area > 0 && crop.min_area <= crop.max_area && crop.max_area <= 1,
          "transform: min_area = {:g} and max_area = {:g}, must be 0 < min_area ≤ max_area ≤ 1",
          crop.min_area, crop.max_area);
  require(crop.min_ratio > 0 && crop.min_ratio <= crop.max_ratio && std::isfinite(crop.max_ratio),
          "transform: min_ratio = {:g} and max_ratio = {:g}, must be 0 < min_ratio ≤ max_ratio",
          crop.min_ratio, crop.max_ratio);
}

ImageSize size_of(const torch::Tensor& image) {
  return {image.size(1), image.size(2)};
}

// In bytes, as PIL does it: for images whose channels are last that is several times as fast as in
// float.
torch::Tensor resized(const torch::Tensor& image, const ImageSize& size) {
  if (size_of(image) == size) return image;
  return at::_upsample_bilinear2d_aa(image.unsqueeze(0), {size.height, size.width},
                                     /*align_corners=*/false)
      .squeeze(0);
}

torch::Tensor cut_out(const torch::Tensor& image, const Window& window) {
  return image.narrow(1, window.top, window.height).narrow(2, window.left, window.width);
}

torch::Tensor normalised(const torch::Tensor& image, const Window& window,
                         const ImageTransform& transform) {
  auto out = torch::empty({3, window.height, window.width});
  normalise(Pixels(image), window, Normalisation(transform), out.data_ptr<float>());
  return out;
}

/// The whole of what a resized crop took, as it comes out.
torch::Tensor finish_resized(const torch::Tensor& image, const Window& window,
                             const ImageTransform& transform) {
  const ImageSize size{transform.size, transform.size};
  const Window whole{
      .height = size.height, .width = size.width, .mirrored = window.mirrored, .hole = window.hole};
  return normalised(resized(cut_out(image, window), size), whole, transform);
}

/// How much smaller a JPEG may be decoded with a pixel left for each that comes out.
int64_t shrink_for(const Window& window, int64_t size) {
  int64_t shrink = 1;
  while (shrink < 8 && std::min(window.height, window.width) >= 2 * shrink * size) shrink *= 2;
  return shrink;
}

Window scaled(const Window& window, const ImageSize& from, const ImageSize& to) {
  const auto top = window.top * to.height / from.height;
  const auto left = window.left * to.width / from.width;
  const auto bottom = (window.top + window.height) * to.height / from.height;
  const auto right = (window.left + window.width) * to.width / from.width;
  auto there = window;
  there.top = top;
  there.left = left;
  there.height = std::max<int64_t>(bottom - top, 1);
  there.width = std::max<int64_t>(right - left, 1);
  return there;
}

}  // namespace

void validate(const ImageTransform& transform) {
  require(transform.size >= 1, "transform: size = {}, must be ≥ 1", transform.size);
  require(transform.erased >= 0 && transform.erased <= transform.size,
          "transform: erased = {}, must be 0 to {}, the size of what comes out", transform.erased,
          transform.size);
  std::visit([&](const auto& crop) { validate_crop(crop, transform.size); }, transform.crop);
  for (size_t channel = 0; channel < 3; ++channel) {
    const auto mean = transform.mean[channel], deviation = transform.deviation[channel];
    require(std::isfinite(mean), "transform: mean = {:g}, must be finite", mean);
    require(deviation > 0 && std::isfinite(deviation),
            "transform: deviation = {:g}, must be > 0 and finite", deviation);
  }
}

ImageTransform cifar_training() {
  return {};
}

ImageTransform cifar_evaluation() {
  return {.crop = CentreCrop{}, .flip = false};
}

ImageTransform imagenet_training() {
  return {
      .size = 224, .crop = ResizedCrop{}, .mean = kImagenetMean, .deviation = kImagenetDeviation};
}

ImageTransform imagenet_evaluation() {
  return {.size = 224,
          .crop = CentreCrop{.shorter_side = 256},
          .flip = false,
          .mean = kImagenetMean,
          .deviation = kImagenetDeviation};
}

torch::Tensor transform_image(const torch::Tensor& image, const ImageTransform& transform,
                              uint64_t key) {
  require(image.dim() == 3 && image.size(0) == 3 && image.scalar_type() == torch::kUInt8 &&
              image.is_cpu() && image.numel() > 0,
          "transform: the image is {}{} on {}, must be Byte[3, height, width] on cpu",
          image.scalar_type(), image.sizes(), image.device());
  validate(transform);
  const auto prepared = resized(image, size_before_crop(transform, size_of(image)));
  const auto window = draw_window(transform, size_of(prepared), key);
  if (std::holds_alternative<ResizedCrop>(transform.crop)) {
    return finish_resized(prepared, window, transform);
  }
  return normalised(prepared, window, transform);
}

torch::Tensor transform_encoded(std::string_view bytes, const ImageTransform& transform,
                                uint64_t key) {
  if (!std::holds_alternative<ResizedCrop>(transform.crop)) {
    return transform_image(decode_image(bytes), transform, key);
  }
  validate(transform);
  const auto size = image_size(bytes);
  const auto window = draw_window(transform, size, key);
  const auto image = decode_image(bytes, {.shrink = shrink_for(window, transform.size)});
  return finish_resized(image, scaled(window, size, size_of(image)), transform);
}

}  // namespace deq::lab

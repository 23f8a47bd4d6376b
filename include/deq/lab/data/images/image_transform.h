#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

namespace deq::lab {

/// The middle of the image: for evaluation.
struct CentreCrop {
  int64_t shorter_side = 0;  ///< ≥ the transform's size: resized to this first; 0: not resized
};

/// What lies around an image.
enum class Margin {
  Black,
  Mean,  ///< the colour that the normalisation turns into 0
};

/// A window drawn at random in the image with a margin around it.
struct PaddedCrop {
  int64_t padding = 4;  ///< ≥ 0 pixels on each side
  Margin margin = Margin::Black;
};

/// A rectangle of random area, shape and position, resized.
struct ResizedCrop {
  double min_area = 0.08;      ///< 0 < min_area ≤ max_area; of the image's area
  double max_area = 1.0;       ///< ≤ 1
  double min_ratio = 3.0 / 4;  ///< 0 < min_ratio ≤ max_ratio; width over height
  double max_ratio = 4.0 / 3;
};

/// From an image of any size to what a model is fed with. The defaults are those of training on
/// CIFAR-10.
struct ImageTransform {
  int64_t size = 32;  ///< ≥ 1; height and width of what comes out
  std::variant<PaddedCrop, ResizedCrop, CentreCrop> crop = PaddedCrop{};
  bool flip = true;    ///< every other image is mirrored, left to right
  int64_t erased = 0;  ///< 0 … size; side of a square at random that becomes the mean colour
  /// What is subtracted from each channel on the scale 0 … 1, and what it is then divided by (> 0).
  std::array<double, 3> mean = {0.4914, 0.4822, 0.4465};
  std::array<double, 3> deviation = {0.2023, 0.1994, 0.2010};
};

void validate(const ImageTransform& transform);

ImageTransform cifar_training();
ImageTransform cifar_evaluation();
ImageTransform imagenet_training();
ImageTransform imagenet_evaluation();

/// Applied to uint8 [3, H, W]: float32 [3, size, size]. What is random about it is a function of
/// `key`.
torch::Tensor transform_image(const torch::Tensor& image, const ImageTransform& transform,
                              uint64_t key);

/// Decoded and transformed. Of a large JPEG whose crop is much larger than what comes out, only a
/// half, a quarter or an eighth of the resolution is decoded.
torch::Tensor transform_encoded(std::string_view bytes, const ImageTransform& transform,
                                uint64_t key);

}  // namespace deq::lab

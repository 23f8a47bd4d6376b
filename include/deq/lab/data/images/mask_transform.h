#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>

namespace deq::lab {

/// From an image of any size and its mask to what a segmentation model is fed with. The defaults
/// are those of training on Cityscapes.
struct MaskTransform {
  enum class Crop {
    Random,  ///< a position drawn at random, after scaling
    Centre,  ///< the middle, not scaled
    None,    ///< the whole image as it is
  };

  Crop crop = Crop::Random;
  int64_t height = 512;    ///< ≥ 1; of what a crop gives
  int64_t width = 1024;    ///< ≥ 1
  double min_scale = 0.5;  ///< 0 < min_scale ≤ max_scale; the random scale of the image
  double max_scale = 2.0;
  bool flip = true;  ///< every other random crop is mirrored, left to right
  /// What is subtracted from each channel on the scale 0 … 1, and what it is then divided by (> 0).
  std::array<double, 3> mean = {0.485, 0.456, 0.406};
  std::array<double, 3> deviation = {0.229, 0.224, 0.225};
};

void validate(const MaskTransform& transform);

struct MaskedImage {
  torch::Tensor image;  ///< [3, H, W]
  torch::Tensor mask;   ///< uint8 [H, W]
};

/// From uint8 image and mask: the image as float32. Both are cut and scaled as one, the image with
/// antialiasing, the mask to the nearest pixel. Where a crop leaves the image, it is black and does
/// not count. What is random is a function of `key`.
MaskedImage transform_masked(const MaskedImage& pair, const MaskTransform& transform, uint64_t key);

}  // namespace deq::lab

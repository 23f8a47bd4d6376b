#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deq/lab/settings/recipe.h"
#include "deq/models/mdeq/segmentation_options.h"

namespace deq::lab {

/// [data]: train/images/ and train/masks/, and test/, val/ or valid/ likewise.
struct SegmentationData {
  std::string path;
  int64_t crop_height = 512;
  int64_t crop_width = 1024;
  bool augment = true;
  double min_scale = 0.5;
  double max_scale = 2.0;
  bool valid_crop = false;
  int64_t valid_batch_size = 1;
};

/// [loss].
struct PixelLossConfig {
  std::vector<double> class_weights{};  ///< one per class, > 0; empty: all count the same
};

/// Segmentation by a multiscale DEQ. The defaults are the authors' for Cityscapes, with their small
/// model.
struct SegmentationConfig : Recipe {
  SegmentationConfig();

  SegmentationData data{};
  models::MdeqSegmenterOptions model{};
  PixelLossConfig loss{};
};

}  // namespace deq::lab

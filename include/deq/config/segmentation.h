#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "deq/config/recipe.h"
#include "deq/models/mdeq_segmentation_options.h"

namespace deq {

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
  std::vector<double> class_weights{};  ///< one a class, > 0; empty: all count the same
};

/// Segmentation by a multiscale DEQ. The defaults are the authors' for Cityscapes, with their small
/// model.
struct SegmentationConfig : Recipe {
  SegmentationConfig();

  SegmentationData data{};
  MdeqSegmenterOptions model{};
  PixelLossConfig loss{};
};

/// The file with each override "key=value" applied in turn, or a ConfigError.
SegmentationConfig load_segmentation(const std::filesystem::path& path,
                                     const std::vector<std::string>& overrides = {});

/// The same from text; `source` names it in messages.
SegmentationConfig parse_segmentation(std::string_view toml, const std::string& source,
                                      const std::vector<std::string>& overrides = {});

/// The effective configuration: every key with its value. Reads back to the same values exactly.
std::string to_toml(const SegmentationConfig& config);

}  // namespace deq

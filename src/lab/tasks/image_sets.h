#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deq/lab/data/batches/batch_source.h"
#include "deq/lab/data/batches/dataset_batches.h"
#include "deq/lab/data/batches/shard.h"
#include "deq/lab/data/images/image_transform.h"
#include "deq/lab/settings/vision.h"

namespace deq::lab {

/// The images of an experiment, as batches (images float32 [B, 3, H, W], labels int64 [B]).
struct ImageSets {
  std::function<std::shared_ptr<const BatchSource>(const Shard&, OnUnreadable)> training;
  std::shared_ptr<const BatchSource> validation;  ///< every image once, in order
  /// Its first batch is kStabilitySamples of them, or all, drawn over the whole set.
  std::shared_ptr<const BatchSource> drawn;
  int64_t validation_samples = 0;
  std::vector<std::string> classes;
  std::vector<std::string> warnings{};  ///< of images that were left out
};

/// Throws Error where the data is missing or damaged. Small sets go to `device` as a whole.
ImageSets open_image_sets(const VisionConfig& config, torch::Device device);

/// What validation does to an image. Training images of one size that are kept in memory are not
/// resized; other images may be of any size and are resized to that of the set.
ImageTransform prediction_transform(const ImageData& data);

/// The names that the data has for its classes, without a look at its images.
std::vector<std::string> class_names(const ImageData& data);

}  // namespace deq::lab

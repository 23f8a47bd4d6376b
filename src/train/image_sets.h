#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deq/config/vision.h"
#include "deq/data/batch_source.h"
#include "deq/data/dataset_batches.h"
#include "deq/data/shard.h"

namespace deq {

/// The images of an experiment, as batches (images float32 [B, 3, H, W], labels int64 [B]).
struct ImageSets {
  std::function<std::shared_ptr<const BatchSource>(const Shard&, OnUnreadable)> training;
  std::shared_ptr<const BatchSource> validation;  ///< every image once, in order
  std::vector<std::string> classes;
};

/// Throws Error where the data is missing or damaged. Small sets go to `device` as a whole.
ImageSets open_image_sets(const VisionConfig& config, torch::Device device);

}  // namespace deq

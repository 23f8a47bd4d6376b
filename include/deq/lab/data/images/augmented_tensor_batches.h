#pragma once

#include <torch/types.h>

#include "deq/lab/data/batches/batch_source.h"
#include "deq/lab/data/batches/epoch_order.h"
#include "deq/lab/data/batches/shard.h"
#include "deq/lab/data/images/image_tensors.h"
#include "deq/lab/data/images/image_transform.h"

namespace deq::lab {

/// Batches (images float32 [B, 3, size, size], labels int64 [B]) of images that are in memory, the
/// host's or a GPU's, transformed there a whole batch at a time. A sample is the same as through
/// transform_image: what is random about it depends only on seed, epoch and sample.
class AugmentedTensorBatches : public BatchSource {
 public:
  /// The crop must not resize; images and labels are on one device, where the batches are made.
  AugmentedTensorBatches(const ImageTensors& set, const ImageTransform& transform,
                         const Shard& shard);

  int64_t batches() const override { return batches_; }
  Batch batch(int64_t epoch, int64_t index) const override;

 private:
  torch::Tensor images_, labels_;
  ImageTransform transform_;
  Shard shard_;
  int64_t batches_;
  EpochOrder order_;
  torch::Tensor values_;  // float32 [3 · 256] on the images' device: what becomes of each byte
};

}  // namespace deq::lab

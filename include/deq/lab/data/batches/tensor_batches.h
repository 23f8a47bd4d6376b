#pragma once

#include <torch/types.h>

#include <vector>

#include "deq/lab/data/batches/batch_source.h"
#include "deq/lab/data/batches/epoch_order.h"
#include "deq/lab/data/batches/shard.h"

namespace deq::lab {

/// Samples that are in memory already, the host's or a GPU's: rows of tensors.
class TensorBatches : public BatchSource {
 public:
  /// All tensors are on one device and of one length, their first dimension being the sample.
  TensorBatches(std::vector<torch::Tensor> tensors, const Shard& shard);

  int64_t batches() const override { return batches_; }
  Batch batch(int64_t epoch, int64_t index) const override;

 private:
  std::vector<torch::Tensor> tensors_;
  Shard shard_;
  int64_t batches_;
  EpochOrder order_;
};

}  // namespace deq::lab

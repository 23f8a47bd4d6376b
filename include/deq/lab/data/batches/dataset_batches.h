#pragma once

#include <cstdint>
#include <memory>

#include "deq/lab/data/batches/batch_source.h"
#include "deq/lab/data/batches/dataset.h"
#include "deq/lab/data/batches/epoch_order.h"
#include "deq/lab/data/batches/shard.h"

namespace deq::lab {

/// What becomes of a batch with a sample that cannot be read.
enum class OnUnreadable {
  Fail,  ///< an Error that names the sample
  Skip,  ///< the sample is left out and counted; an Error when none is left
};

/// Stacks the samples of a data set.
class DatasetBatches : public BatchSource {
 public:
  DatasetBatches(std::shared_ptr<const Dataset> dataset, const Shard& shard,
                 OnUnreadable on_unreadable = OnUnreadable::Fail);

  int64_t batches() const override { return batches_; }
  Batch batch(int64_t epoch, int64_t index) const override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  Shard shard_;
  OnUnreadable on_unreadable_;
  int64_t batches_;
  EpochOrder order_;
};

}  // namespace deq::lab

#pragma once

#include <torch/types.h>

#include "deq/lab/data/batches/batch_source.h"
#include "deq/lab/data/batches/shard.h"

namespace deq::lab {

/// A text read by many readers at once. It is cut into shard.batch_size streams of equal length,
/// the rest at its end being left out, and each stream into segments; segment t of all streams is
/// step t of every epoch. A batch is (tokens int64 [B, L], targets int64 [B, L]), targets being the
/// tokens that follow; L is `length`, and less in an epoch's last step. Every token except the
/// first of each stream is a target once.
///
/// Memory: what a model remembers of batch `index` belongs to batch index + shard.parts of the same
/// epoch, which goes on where it ended. starts_anew(index) says that there is nothing to remember:
/// the first step of an epoch. With several parts, each has streams and so a memory of its own.
///
/// A rank owns the streams that it would own of a step's samples; the order is the text's, whatever
/// the shard's seed and shuffle are.
class SegmentBatches : public BatchSource {
 public:
  /// `tokens` is int32 or int64 [N], N ≥ 2 · batch_size; `length` ≥ 1.
  SegmentBatches(const torch::Tensor& tokens, int64_t length, const Shard& shard);

  int64_t batches() const override { return segments() * shard_.parts; }
  Batch batch(int64_t epoch, int64_t index) const override;

  bool starts_anew(int64_t index) const { return index < shard_.parts; }

  /// Steps of an epoch.
  int64_t segments() const;
  /// Targets of an epoch, over all ranks and parts.
  int64_t predictions() const { return shard_.batch_size * (streams_.size(1) - 1); }

 private:
  torch::Tensor streams_;  // [shard.batch_size, tokens of each]
  int64_t length_;
  Shard shard_;
};

}  // namespace deq::lab

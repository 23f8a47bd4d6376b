#pragma once

#include <cstdint>

namespace deq::lab {

/// Which samples of each optimiser step belong to this process. A step takes batch_size consecutive
/// entries of the epoch's order, cut into ranks · parts equal slices, the ranks of one part side by
/// side: the slices of all ranks and parts, in order, are the batch of a single process. A last
/// step that would be incomplete is left out; its samples come up in other epochs.
struct Shard {
  int64_t batch_size = 1;  ///< samples of a step over all ranks and parts; divisible by both
  int64_t rank = 0;        ///< 0 ≤ rank < ranks
  int64_t ranks = 1;       ///< ≥ 1; processes that share a step
  int64_t parts = 1;       ///< ≥ 1; batches of this process in a step (gradient accumulation)
  uint64_t seed = 0;       ///< decides the order of every epoch; the same on all ranks
  bool shuffle = true;     ///< else every epoch has the order of the data set

  /// Samples of one batch.
  int64_t slice_size() const { return batch_size / (ranks * parts); }
  /// Where in the step's batch_size samples this rank's slice of `part` begins.
  int64_t first_position(int64_t part) const { return (part * ranks + rank) * slice_size(); }
  /// Where in the epoch's order batch `index` of this rank begins: part index % parts of step
  /// index / parts.
  int64_t first_entry(int64_t index) const;
  /// Batches of this rank in an epoch of `samples`; an error when they do not make one step.
  int64_t batches(int64_t samples) const;
};

void validate(const Shard& shard);

}  // namespace deq::lab

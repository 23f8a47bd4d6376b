#pragma once

#include <cstdint>
#include <vector>

#include "deq/lab/data/batches/dataset.h"
#include "deq/lab/data/puzzles/puzzle_set.h"

namespace deq::lab {

/// Puzzles as samples: a question and its answer, both [cells], int64, as a PuzzleGrid has them.
class PuzzleDataset : public Dataset {
 public:
  /// With `augment` every look at a puzzle shows another guise of it.
  PuzzleDataset(PuzzleSet set, bool augment);

  int64_t size() const override { return static_cast<int64_t>(set_.puzzles.size()); }
  std::vector<torch::Tensor> get(int64_t index, uint64_t key) const override;

 private:
  PuzzleSet set_;
  bool augment_;
};

/// A grid as a model sees it.
torch::Tensor tokens_of(const PuzzleGrid& grid);

}  // namespace deq::lab

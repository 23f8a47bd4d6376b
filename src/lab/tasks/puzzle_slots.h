#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "deq/core/state_layout.h"
#include "deq/lab/data/batches/batch.h"
#include "deq/lab/data/batches/shard.h"
#include "deq/lab/distributed/world.h"

namespace deq::lab {

/// The puzzles that a reasoner in training is at, one in each row of its batch, and how far it is
/// with them.
class PuzzleSlots {
 public:
  /// One part of a step.
  struct Rows {
    torch::Tensor questions, answers;  ///< [B, cells], int64
    State state;                       ///< where the solve of the segment before has ended
    torch::Tensor segments;            ///< [B], int64: how many there were
    torch::Tensor least;               ///< [B], int64: how many there will be at least
    torch::Tensor over;                ///< [B], int64: 1 where the puzzle gives way to a new one
  };

  PuzzleSlots(const Shard& shard, int64_t segments, double exploration);

  /// What the next pass is about. Where a puzzle is over, the one of the batch at the same row
  /// takes its place, and so in all rows after a pass without a finite loss.
  const Rows& next(const Batch& batch, const std::function<State(const torch::Tensor&)>& start_of);

  /// What the pass leaves; comes once after each next(). A puzzle is over after its last segment,
  /// or when it was there for long enough and `settled` [B] is above 0.
  void remember(const State& state, const torch::Tensor& settled, const torch::Tensor& loss);

  /// All rows of all ranks and parts. Between two steps.
  std::map<std::string, torch::Tensor> gather(World& world) const;

  /// As it was after `step` steps, on any number of ranks and parts.
  void restore(int64_t step, const std::map<std::string, torch::Tensor>& gathered,
               torch::Device device);

 private:
  struct Part {
    Rows rows;
    torch::Tensor loss;  // of the pass that left them
  };

  Part& turn() { return parts_[static_cast<size_t>(batch_ % shard_.parts)]; }
  Rows fresh(const Batch& batch, const State& start) const;

  Shard shard_;
  int64_t segments_;
  double exploration_;
  int64_t batch_ = 0;  // since the start of the training
  std::vector<Part> parts_;
};

}  // namespace deq::lab

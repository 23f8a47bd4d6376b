#pragma once

#include <torch/types.h>

#include <vector>

#include "deq/lab/data/puzzles/puzzle_shape.h"
#include "deq/lab/settings/reasoning.h"
#include "deq/models/reasoner/reasoner.h"

// What training and using a reasoner have in common.

namespace deq::lab {

/// For puzzles of this shape, in the run's precision.
models::Reasoner make_reasoner(const ReasoningConfig& config, const PuzzleShape& shape,
                               torch::Device device);

/// As the solver of a plan has it, where training takes a few recursions at a time.
EquilibriumPlan solved_with(const EquilibriumPlan& how);

/// The start of a puzzle, or of a batch of them, that belongs to a number.
State numbered_start(models::Reasoner& network, const torch::Tensor& questions, int64_t seed,
                     int64_t number);

/// One puzzle, followed to its answer.
struct FollowedPuzzle {
  PuzzleGrid answer;
  SampleReport solve;
  std::vector<PuzzleGrid> way;  ///< what the answer would have been after each evaluation
};

/// From the start that belongs to a number.
FollowedPuzzle follow(models::Reasoner& network, const PuzzleGrid& question,
                      const EquilibriumPlan& how, int64_t seed, int64_t number);

}  // namespace deq::lab

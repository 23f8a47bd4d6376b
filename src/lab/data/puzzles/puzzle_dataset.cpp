#include "deq/lab/data/puzzles/puzzle_dataset.h"

#include <utility>

namespace deq::lab {

PuzzleDataset::PuzzleDataset(PuzzleSet set, bool augment)
    : set_(std::move(set)), augment_(augment) {}

std::vector<torch::Tensor> PuzzleDataset::get(int64_t index, uint64_t key) const {
  const auto& puzzle = set_.puzzles[static_cast<size_t>(index)];
  if (!augment_) return {tokens_of(puzzle.question), tokens_of(puzzle.answer)};
  const auto guise = in_another_guise(set_.shape, puzzle, key);
  return {tokens_of(guise.question), tokens_of(guise.answer)};
}

torch::Tensor tokens_of(const PuzzleGrid& grid) {
  return torch::tensor(std::vector<int64_t>(grid.begin(), grid.end()), torch::kInt64);
}

}  // namespace deq::lab

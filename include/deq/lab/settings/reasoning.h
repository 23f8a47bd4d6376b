#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "deq/lab/settings/recipe.h"
#include "deq/models/reasoner/options.h"

namespace deq::lab {

/// [data]: a folder with train.csv and test.csv, as deq data make sudoku or maze makes it.
struct PuzzleData {
  std::string path;
  std::optional<int64_t> train_puzzles{}, valid_puzzles{};  ///< ≥ 1; only the first so many
  bool augment = true;
};

/// What takes the exponential's part in a cell's cross-entropy.
enum class CellLoss { Stablemax, Softmax };

/// [reasoning]: how a puzzle is learnt, segment by segment, and how it is solved.
struct ReasoningPlan {
  int64_t segments = 16;     ///< ≥ 1; after so many a puzzle is given up
  double exploration = 0.1;  ///< in [0, 1]
  CellLoss loss = CellLoss::Stablemax;
  double settled_weight = 0.5;  ///< ≥ 0
  int64_t breadth = 1;          ///< ≥ 1
};

/// Puzzles solved by a small network that is applied again and again. The defaults are those of the
/// Tiny Recursive Model for Sudoku. Cells and their contents come from the puzzles.
struct ReasoningConfig : Recipe {
  ReasoningConfig();

  PuzzleData data{};
  models::ReasonerOptions model{};
  ReasoningPlan reasoning{};
};

}  // namespace deq::lab

#pragma once

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "deq/core/report.h"
#include "deq/lab/data/puzzles/puzzle_shape.h"
#include "deq/lab/runs/run.h"

namespace deq::lab {

struct PuzzleAnswer {
  PuzzleGrid grid;              ///< what the model says, in every cell
  bool right = false;           ///< it keeps to the question and the rules
  SampleReport solve;           ///< how its equilibrium was found
  std::vector<PuzzleGrid> way;  ///< what it would have said after each evaluation
};

/// The reasoner of a run, for puzzles whose answer nobody knows. The data that it was trained on
/// need not be there.
class PuzzleSolver {
 public:
  /// Throws UsageError where the folder holds no run or one that does not solve puzzles, Error
  /// where no checkpoint is whole or fits.
  explicit PuzzleSolver(const std::filesystem::path& run, torch::Device device = torch::kCPU,
                        WhichCheckpoint which = WhichCheckpoint::Newest,
                        const std::vector<std::string>& overrides = {});
  ~PuzzleSolver();

  /// Of the puzzles that it was trained on.
  const PuzzleShape& shape() const;

  /// Checkpoints that were passed over, and why.
  const std::vector<std::string>& warnings() const;

  /// From as many starts as the configuration's breadth says, of which the most settled one counts.
  /// Throws Error where the question is of another shape.
  PuzzleAnswer solve(const PuzzleGrid& question);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace deq::lab

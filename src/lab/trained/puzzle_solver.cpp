#include "deq/lab/trained/puzzle_solver.h"

#include <utility>

#include "core/require.h"
#include "deq/core/precision.h"
#include "deq/lab/data/puzzles/sudoku_text.h"
#include "deq/lab/settings/evaluation.h"
#include "lab/networks/reasoner_network.h"
#include "lab/runs/model_state.h"
#include "lab/trained/run_config.h"

namespace deq::lab {
namespace {

/// Older checkpoints do not say it. They are for Sudokus, and embed each thing that may stand in a
/// cell.
PuzzleShape shape_in(const RunCheckpoint& checkpoint) {
  if (const auto shape = shape_of_mark(checkpoint.sample_form)) return *shape;
  const auto found = checkpoint.weights.find("embedding");
  require(found != checkpoint.weights.end(), "{} holds no embedding of puzzles",
          checkpoint.path.string());
  const auto side = found->second.size(0) - 1;
  const auto shape = sudoku_shape(static_cast<size_t>(side * side));
  require(shape.has_value(), "{} is for grids of {} × {} cells, which are none",
          checkpoint.path.string(), side, side);
  return *shape;
}

}  // namespace

struct PuzzleSolver::Parts {
  Parts(const ReasoningConfig& reasoning, torch::Device where, RunCheckpoint checkpoint)
      : config(reasoning),
        device(where),
        shape(shape_in(checkpoint)),
        how(solved_with(evaluation_options(config))),
        network(make_reasoner(config, shape, device)),
        warnings(std::move(checkpoint.warnings)) {
    restore_tensors(model_tensors(*network), checkpoint.weights, checkpoint.path.string());
    network->eval();
  }

  FollowedPuzzle from_start(const PuzzleGrid& question, int64_t number) {
    return follow(network, question, how, config.seed, number);
  }

  ReasoningConfig config;
  torch::Device device;
  PuzzleShape shape;
  EquilibriumPlan how;
  models::Reasoner network;
  std::vector<std::string> warnings;
};

PuzzleSolver::PuzzleSolver(const std::filesystem::path& run, torch::Device device,
                           WhichCheckpoint which, const std::vector<std::string>& overrides) {
  const auto config = run_config_of<ReasoningConfig>(run, overrides, "reasoning", "solves puzzles");
  parts_ = std::make_unique<Parts>(config, device, read_run_checkpoint(run, which));
}

PuzzleSolver::~PuzzleSolver() = default;

const PuzzleShape& PuzzleSolver::shape() const {
  return parts_->shape;
}

const std::vector<std::string>& PuzzleSolver::warnings() const {
  return parts_->warnings;
}

PuzzleAnswer PuzzleSolver::solve(const PuzzleGrid& question) {
  const auto& shape = parts_->shape;
  require(std::ssize(question) == cells_of(shape),
          "a puzzle of {} cells, but the model solves those of {}", question.size(),
          size_of(shape));
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(parts_->config.precision, parts_->device);
  auto best = parts_->from_start(question, 0);
  for (int64_t number = 1; number < parts_->config.reasoning.breadth; ++number) {
    auto other = parts_->from_start(question, number);
    if (other.solve.relative < best.solve.relative) best = std::move(other);
  }
  const bool right = !fault_of_answer(shape, question, best.answer);
  return {.grid = std::move(best.answer),
          .right = right,
          .solve = best.solve,
          .way = std::move(best.way)};
}

}  // namespace deq::lab

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "deq/lab/data/puzzles/puzzle.h"

namespace deq::lab {

/// Walls are cells too. Around the grid there is nothing, whether walls are drawn there or not.
struct MazeShape {
  int64_t rows = 30, columns = 30;  ///< 2 to 100 each

  int64_t cells() const { return rows * columns; }
  bool operator==(const MazeShape&) const = default;
};

/// Throws Error where it has other numbers of rows or columns.
void validate(const MazeShape& shape);

/// What stands in a cell of a maze. Paths are in answers only; a question has one start, one goal.
enum MazeCell : uint8_t { kMazeWall, kMazeOpen, kMazeStart, kMazeGoal, kMazePath };
inline constexpr int64_t kMazeVocabulary = 5;

/// What a search from the start finds; one goes from a cell to the four beside it.
struct MazeSearch {
  bool perfect = false;  ///< from the start there is one way to every cell that is no wall
  int64_t path = 0;      ///< cells of a shortest way to the goal, with both ends; 0: there is none
  PuzzleGrid answer;     ///< the question with that way in it, or nothing
};

/// Throws Error where the shape is none, or the grid is no question of it.
MazeSearch solve_maze(const MazeShape& shape, const PuzzleGrid& question);

/// The perfect maze that belongs to a key, with a start and a goal whose path has so many cells,
/// both of them counted; that is its rating. Nothing where the start that is drawn has no such
/// goal.
std::optional<Puzzle> make_maze(const MazeShape& shape, int64_t least_path, int64_t most_path,
                                uint64_t key);

/// The same maze in another guise, which belongs to a key: one of the square's eight symmetries, or
/// of the rectangle's four.
Puzzle in_another_guise(const MazeShape& shape, const Puzzle& puzzle, uint64_t key);

/// Why a grid is no answer to a question, or nothing: it must be the question with one of the
/// shortest ways from start to goal.
std::optional<std::string> fault_of_answer(const MazeShape& shape, const PuzzleGrid& question,
                                           const PuzzleGrid& answer);

}  // namespace deq::lab

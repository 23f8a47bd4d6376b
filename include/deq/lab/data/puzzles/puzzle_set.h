#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "deq/lab/data/puzzles/puzzle_shape.h"

namespace deq::lab {

struct SudokuWanted {
  SudokuShape shape{};
  int64_t least_rating = 0;  ///< easier puzzles are not taken
};

struct MazeWanted {
  MazeShape shape{};
  int64_t least_path = 100, most_path = 140;  ///< cells of the path, both ends counted; from 2 on
};

struct PuzzleSetOptions {
  std::variant<SudokuWanted, MazeWanted> wanted{};
  int64_t count = 1000;
  uint64_t seed = 0;
  int64_t threads = 0;  ///< 0: as many as the machine has; the puzzles do not depend on it
  /// Called now and then with how many of how many are made; may throw to stop.
  std::function<void(int64_t done, int64_t total)> progress{};
};

/// A set of one shape.
struct PuzzleSet {
  PuzzleShape shape;
  std::vector<Puzzle> puzzles;
};

/// Puzzles of which no two have the same question. Throws Error where so many cannot be found.
PuzzleSet make_puzzles(const PuzzleSetOptions& options);

/// A table in the form of Sudoku-Extreme: a first line "source,question,answer,rating", then a
/// puzzle per line. Blanks of a Sudoku are dots (or zeros); a maze is written as maze_text.h says.
/// The rating may be missing.
void write_puzzles(const std::filesystem::path& file, const PuzzleSet& set,
                   const std::string& source = "deq");
/// The first question says of which kind and shape all are. Throws Error with the line where
/// something is not a puzzle with its answer. Whether it has another one is not looked at.
PuzzleSet read_puzzles(const std::filesystem::path& file);

}  // namespace deq::lab

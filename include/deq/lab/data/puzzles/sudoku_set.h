#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "deq/lab/data/puzzles/sudoku.h"

namespace deq::lab {

struct SudokuSetOptions {
  SudokuShape shape{};
  int64_t count = 1000;
  int64_t least_rating = 0;  ///< easier puzzles are not taken
  uint64_t seed = 0;
  int64_t threads = 0;  ///< 0: as many as the machine has; the puzzles do not depend on it
  /// Called now and then with how many of how many are made; may throw to stop.
  std::function<void(int64_t done, int64_t total)> progress{};
};

/// Puzzles of which no two have the same question. Throws Error where so many cannot be found.
std::vector<Sudoku> make_sudokus(const SudokuSetOptions& options);

/// A set of one shape.
struct SudokuSet {
  SudokuShape shape;
  std::vector<Sudoku> puzzles;
};

/// A table in the form of Sudoku-Extreme: a first line "source,question,answer,rating", then a
/// puzzle per line, whose blanks are dots (or zeros). The rating may be missing.
void write_sudokus(const std::filesystem::path& file, const SudokuSet& set,
                   const std::string& source = "deq");
/// Throws Error with the line where something is not a puzzle with its answer. Whether it has
/// another one is not looked at.
SudokuSet read_sudokus(const std::filesystem::path& file);

}  // namespace deq::lab

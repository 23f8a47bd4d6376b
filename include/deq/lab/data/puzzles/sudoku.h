#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "deq/lab/data/puzzles/puzzle.h"

namespace deq::lab {

/// A grid has as many rows, columns, boxes and digits as a box has cells: 4 to 9. What stands in a
/// cell of a PuzzleGrid is a digit from 1 on, or 0 where it is blank.
struct SudokuShape {
  int64_t box_rows = 3, box_columns = 3;

  int64_t side() const { return box_rows * box_columns; }
  int64_t cells() const { return side() * side(); }
  bool operator==(const SudokuShape&) const = default;
};

/// Throws Error where boxes have fewer than 2 rows or columns, or more than 9 cells.
void validate(const SudokuShape& shape);

/// The solver writes what can stand in one cell only, or what alone can stand in a cell. Where
/// neither is left, it tries the digits of a cell that has the fewest, in order, and goes on until
/// all have been tried.
struct SudokuSearch {
  int64_t solutions = 0;  ///< that were found; the search ends with the last one asked for
  int64_t vain = 0;       ///< digits that were tried and led to none
  PuzzleGrid answer;      ///< the first one, or nothing
};

/// Throws Error where the shape is none, or the grid is not one of it.
SudokuSearch solve_sudoku(const SudokuShape& shape, const PuzzleGrid& question, int64_t most = 2);

/// The question with one answer that belongs to a key: without any of its digits it would have
/// several. Its rating is the number of digits that the solver tries in vain.
Puzzle make_sudoku(const SudokuShape& shape, uint64_t key);

/// The same puzzle in another guise, which belongs to a key: digits renamed, rows and columns
/// swapped within their bands and bands among each other, and mirrored along the diagonal where
/// boxes are square. The solver may take more or fewer steps; the rating stays what it was.
Puzzle in_another_guise(const SudokuShape& shape, const Puzzle& puzzle, uint64_t key);

/// Why a grid is no answer to a question, or nothing.
std::optional<std::string> fault_of_answer(const SudokuShape& shape, const PuzzleGrid& question,
                                           const PuzzleGrid& answer);

}  // namespace deq::lab

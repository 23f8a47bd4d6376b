#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "deq/lab/data/puzzles/sudoku.h"

// Sudokus as people write them.

namespace deq::lab {

/// Of grids with 16, 36, 64 or 81 cells; of boxes that are not square, the flat ones.
std::optional<SudokuShape> sudoku_shape(size_t cells);

/// All cells in one line, blanks as dots.
std::string sudoku_line(const PuzzleGrid& grid);

/// Reads it, with dots or zeros for blanks. Throws Error where it is no grid of the shape.
PuzzleGrid sudoku_from_line(const SudokuShape& shape, std::string_view line);

/// A line per row, with lines between the boxes.
std::string draw_sudoku(const SudokuShape& shape, const PuzzleGrid& grid);

/// Reads both: digits, and dots or zeros for blanks. Spaces, ends of lines and what is drawn
/// between boxes (| + -) do not count. Throws Error where it is no grid.
PuzzleGrid parse_sudoku(std::string_view text);

}  // namespace deq::lab

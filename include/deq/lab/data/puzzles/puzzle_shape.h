#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "deq/lab/data/puzzles/maze.h"
#include "deq/lab/data/puzzles/puzzle.h"
#include "deq/lab/data/puzzles/sudoku.h"

// What all kinds of puzzles have in common.

namespace deq::lab {

/// The kind of a puzzle, and its size.
using PuzzleShape = std::variant<SudokuShape, MazeShape>;

int64_t cells_of(const PuzzleShape& shape);
/// How many things may stand in a cell of a question or an answer.
int64_t vocabulary_of(const PuzzleShape& shape);
/// "9 × 9"
std::string size_of(const PuzzleShape& shape);

/// "sudoku 3x3" (rows and columns of a box), "maze 30x30": as a checkpoint keeps it. And back:
/// nothing where it is none, Error where no puzzle is of that size.
std::string mark_of(const PuzzleShape& shape);
std::optional<PuzzleShape> shape_of_mark(const std::string& mark);

Puzzle in_another_guise(const PuzzleShape& shape, const Puzzle& puzzle, uint64_t key);

/// Why a grid is no answer to a question, or nothing.
std::optional<std::string> fault_of_answer(const PuzzleShape& shape, const PuzzleGrid& question,
                                           const PuzzleGrid& answer);

/// All cells in one line, and back; of a question, its shape too. Throws Error where it is none.
std::string line_of(const PuzzleShape& shape, const PuzzleGrid& grid);
PuzzleGrid grid_from_line(const PuzzleShape& shape, std::string_view line);
PuzzleShape shape_of_line(std::string_view question);

/// Several lines for people, and a question from what people write.
std::string draw_puzzle(const PuzzleShape& shape, const PuzzleGrid& grid);
PuzzleGrid parse_puzzle(const PuzzleShape& shape, std::string_view text);

}  // namespace deq::lab

#pragma once

#include <string>
#include <string_view>

#include "deq/lab/data/puzzles/maze.h"

// Mazes as people write them: # a wall, a space (or a dot) an open cell, S the start, G the goal,
// o a cell of the path.

namespace deq::lab {

/// Whether a line is more like a maze than like digits.
bool looks_like_maze(std::string_view line);

/// Of a maze in one line: square, or with slashes between its rows. Throws Error where it is
/// neither.
MazeShape maze_shape(std::string_view line);

/// All cells in one line, with slashes between the rows where they are not as many as the columns.
std::string maze_line(const MazeShape& shape, const PuzzleGrid& grid);

/// Reads it. Throws Error where it is no grid of the shape.
PuzzleGrid maze_from_line(const MazeShape& shape, std::string_view line);

/// A line per row.
std::string draw_maze(const MazeShape& shape, const PuzzleGrid& grid);

/// Reads a question in both forms. Throws Error where it is none of the shape.
PuzzleGrid parse_maze(const MazeShape& shape, std::string_view text);

}  // namespace deq::lab

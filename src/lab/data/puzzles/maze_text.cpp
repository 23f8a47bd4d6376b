#include "deq/lab/data/puzzles/maze_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/require.h"

namespace deq::lab {
namespace {

constexpr std::string_view kMazeLetters = "# SGo";  // by what stands in a cell

uint8_t maze_cell(char letter) {
  const auto found = kMazeLetters.find(letter == '.' ? ' ' : letter);
  require(found != std::string_view::npos,
          "a maze consists of # for walls, spaces or dots for open cells, S and G; it has other "
          "signs, too");
  return static_cast<uint8_t>(found);
}

std::vector<std::string_view> maze_rows(std::string_view text, char between) {
  std::vector<std::string_view> rows;
  for (size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(between, begin), text.size());
    rows.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return rows;
}

PuzzleGrid maze_from_rows(const MazeShape& shape, const std::vector<std::string_view>& rows) {
  require(std::ssize(rows) == shape.rows, "a maze of {} rows, where {} are expected", rows.size(),
          shape.rows);
  PuzzleGrid grid;
  for (size_t row = 0; row < rows.size(); ++row) {
    require(std::ssize(rows[row]) == shape.columns,
            "row {} of the maze has {} cells, where {} are expected", row + 1, rows[row].size(),
            shape.columns);
    for (const char letter : rows[row]) grid.push_back(maze_cell(letter));
  }
  return grid;
}

std::string with_between(const MazeShape& shape, const PuzzleGrid& grid, std::string_view between) {
  std::string text;
  for (size_t cell = 0; cell < grid.size(); ++cell) {
    if (cell > 0 && cell % static_cast<size_t>(shape.columns) == 0) text += between;
    text += kMazeLetters[grid[cell]];
  }
  return text;
}

}  // namespace

bool looks_like_maze(std::string_view line) {
  return line.find_first_of("#SG") != std::string_view::npos;
}

MazeShape maze_shape(std::string_view line) {
  const auto slashes = std::ranges::count(line, '/');
  const auto side = std::llround(std::sqrt(static_cast<double>(line.size())));
  require(slashes > 0 || side * side == std::ssize(line),
          "a maze of {} cells is not square, and has no slashes between its rows", line.size());
  const MazeShape shape = slashes > 0 ? MazeShape{slashes + 1, static_cast<int64_t>(line.find('/'))}
                                      : MazeShape{side, side};
  validate(shape);
  return shape;
}

std::string maze_line(const MazeShape& shape, const PuzzleGrid& grid) {
  return with_between(shape, grid, shape.rows == shape.columns ? "" : "/");
}

PuzzleGrid maze_from_line(const MazeShape& shape, std::string_view line) {
  if (line.find('/') != std::string_view::npos) return maze_from_rows(shape, maze_rows(line, '/'));
  require(std::ssize(line) == shape.cells(), "{} cells where {} are expected", line.size(),
          shape.cells());
  PuzzleGrid grid;
  for (const char letter : line) grid.push_back(maze_cell(letter));
  return grid;
}

std::string draw_maze(const MazeShape& shape, const PuzzleGrid& grid) {
  return with_between(shape, grid, "\n") + '\n';
}

PuzzleGrid parse_maze(const MazeShape& shape, std::string_view text) {
  std::string plain(text);
  std::erase(plain, '\r');
  if (plain.ends_with('\n')) plain.pop_back();
  auto grid = plain.find('\n') == std::string::npos ? maze_from_line(shape, plain)
                                                    : maze_from_rows(shape, maze_rows(plain, '\n'));
  solve_maze(shape, grid);  // says what is no question
  return grid;
}

}  // namespace deq::lab

#include "deq/lab/data/puzzles/puzzle_shape.h"

#include "core/format.h"
#include "core/require.h"
#include "deq/lab/data/puzzles/maze_text.h"
#include "deq/lab/data/puzzles/sudoku_text.h"
#include "lab/base/two_numbers.h"

namespace deq::lab {
namespace {

/// One function for each kind.
template <class... Kinds>
struct ByKind : Kinds... {
  using Kinds::operator()...;
};
template <class... Functions>
ByKind(Functions...) -> ByKind<Functions...>;

constexpr std::string_view kSudokuMark = "sudoku ", kMazeMark = "maze ";

}  // namespace

int64_t cells_of(const PuzzleShape& shape) {
  return std::visit([](const auto& kind) { return kind.cells(); }, shape);
}

int64_t vocabulary_of(const PuzzleShape& shape) {
  return std::visit(ByKind{[](const SudokuShape& sudoku) { return sudoku.side() + 1; },
                           [](const MazeShape&) { return kMazeVocabulary; }},
                    shape);
}

std::string size_of(const PuzzleShape& shape) {
  return std::visit(
      ByKind{[](const SudokuShape& sudoku) { return fmt::format("{0} × {0}", sudoku.side()); },
             [](const MazeShape& maze) { return fmt::format("{} × {}", maze.rows, maze.columns); }},
      shape);
}

std::string mark_of(const PuzzleShape& shape) {
  return std::visit(ByKind{[](const SudokuShape& sudoku) {
                             return fmt::format("{}{}x{}", kSudokuMark, sudoku.box_rows,
                                                sudoku.box_columns);
                           },
                           [](const MazeShape& maze) {
                             return fmt::format("{}{}x{}", kMazeMark, maze.rows, maze.columns);
                           }},
                    shape);
}

std::optional<PuzzleShape> shape_of_mark(const std::string& mark) {
  const auto after = [&](std::string_view begin) {
    return mark.starts_with(begin) ? two_numbers(std::string_view(mark).substr(begin.size()), 'x')
                                   : std::nullopt;
  };
  std::optional<PuzzleShape> shape;
  if (const auto boxes = after(kSudokuMark)) shape = SudokuShape{boxes->first, boxes->second};
  if (const auto lines = after(kMazeMark)) shape = MazeShape{lines->first, lines->second};
  if (shape) std::visit([](const auto& kind) { validate(kind); }, *shape);
  return shape;
}

Puzzle in_another_guise(const PuzzleShape& shape, const Puzzle& puzzle, uint64_t key) {
  return std::visit(
      ByKind{[&](const SudokuShape& sudoku) { return in_another_guise(sudoku, puzzle, key); },
             [&](const MazeShape& maze) { return in_another_guise(maze, puzzle, key); }},
      shape);
}

std::optional<std::string> fault_of_answer(const PuzzleShape& shape, const PuzzleGrid& question,
                                           const PuzzleGrid& answer) {
  return std::visit(
      ByKind{[&](const SudokuShape& sudoku) { return fault_of_answer(sudoku, question, answer); },
             [&](const MazeShape& maze) { return fault_of_answer(maze, question, answer); }},
      shape);
}

std::string line_of(const PuzzleShape& shape, const PuzzleGrid& grid) {
  return std::visit(ByKind{[&](const SudokuShape&) { return sudoku_line(grid); },
                           [&](const MazeShape& maze) { return maze_line(maze, grid); }},
                    shape);
}

PuzzleGrid grid_from_line(const PuzzleShape& shape, std::string_view line) {
  return std::visit(
      ByKind{[&](const SudokuShape& sudoku) { return sudoku_from_line(sudoku, line); },
             [&](const MazeShape& maze) { return maze_from_line(maze, line); }},
      shape);
}

PuzzleShape shape_of_line(std::string_view question) {
  if (looks_like_maze(question)) return maze_shape(question);
  const auto shape = sudoku_shape(question.size());
  require(shape.has_value(), "a question of {} cells, where 16, 36, 64 or 81 are expected",
          question.size());
  return *shape;
}

std::string draw_puzzle(const PuzzleShape& shape, const PuzzleGrid& grid) {
  return std::visit(ByKind{[&](const SudokuShape& sudoku) { return draw_sudoku(sudoku, grid); },
                           [&](const MazeShape& maze) { return draw_maze(maze, grid); }},
                    shape);
}

PuzzleGrid parse_puzzle(const PuzzleShape& shape, std::string_view text) {
  return std::visit(ByKind{[&](const SudokuShape&) { return parse_sudoku(text); },
                           [&](const MazeShape& maze) { return parse_maze(maze, text); }},
                    shape);
}

}  // namespace deq::lab

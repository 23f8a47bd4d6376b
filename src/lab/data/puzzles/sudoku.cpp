#include "deq/lab/data/puzzles/sudoku.h"

#include <algorithm>
#include <numeric>

#include "core/require.h"
#include "lab/base/keyed_numbers.h"
#include "lab/data/puzzles/sudoku_search.h"
#include "lab/data/puzzles/sudoku_swaps.h"

namespace deq::lab {
namespace {

using sudoku::Board;
using sudoku::Digits;
using sudoku::kMostSide;
using sudoku::Layout;
using sudoku::Search;

/// 0 … count − 1 in an order that is drawn.
std::vector<size_t> drawn_order(int64_t count, KeyedNumbers& numbers) {
  std::vector<size_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), size_t{0});
  for (int64_t k = count - 1; k > 0; --k) {
    std::swap(order[static_cast<size_t>(k)], order[static_cast<size_t>(numbers.below(k + 1))]);
  }
  return order;
}

/// Whether only `digit` can stand in a blank cell, or that digit only there: seen at once.
bool follows(const Layout& layout, const Board& board, size_t cell, Digits digit) {
  if (board.free_at(layout, cell) == digit) return true;
  return std::any_of(layout.units_of[cell].begin(), layout.units_of[cell].end(),
                     [&](const auto unit) {
                       for (int k = 0; k < layout.side; ++k) {
                         const size_t other = layout.cells_of[unit][static_cast<size_t>(k)];
                         if (other != cell && board.written[other] == 0 &&
                             (board.free_at(layout, other) & digit) != 0) {
                           return false;
                         }
                       }
                       return true;
                     });
}

/// Rows or columns in another order: bands among each other, and those within a band.
std::vector<size_t> drawn_lines(int64_t bands, int64_t in_band, KeyedNumbers& numbers) {
  std::vector<size_t> lines;
  for (const auto band : drawn_order(bands, numbers)) {
    for (const auto line : drawn_order(in_band, numbers)) {
      lines.push_back(band * static_cast<size_t>(in_band) + line);
    }
  }
  return lines;
}

}  // namespace

void validate(const SudokuShape& shape) {
  require(shape.box_rows >= 2 && shape.box_columns >= 2 && shape.box_rows <= kMostSide &&
              shape.box_columns <= kMostSide && shape.side() <= kMostSide,
          "a Sudoku's boxes have 2 rows and 2 columns at least and {} cells at most, not {} × {}",
          kMostSide, shape.box_rows, shape.box_columns);
}

SudokuSearch solve_sudoku(const SudokuShape& shape, const PuzzleGrid& question, int64_t most) {
  validate(shape);
  require(static_cast<int64_t>(question.size()) == shape.cells(),
          "a Sudoku of {0} × {0} has {1} cells, not {2}", shape.side(), shape.cells(),
          question.size());
  const Layout layout(shape);
  Board board;
  for (size_t cell = 0; cell < question.size(); ++cell) {
    const int digit = question[cell];
    require(digit <= layout.side, "a Sudoku of {0} × {0} has no digit {1}", layout.side, digit);
    if (digit == 0) continue;
    const auto bit = static_cast<Digits>(1 << (digit - 1));
    if ((board.free_at(layout, cell) & bit) == 0) return {};
    board.write(layout, cell, bit);
  }
  return Search(layout, most).from(board);
}

Puzzle make_sudoku(const SudokuShape& shape, uint64_t key) {
  validate(shape);
  const Layout layout(shape);
  KeyedNumbers numbers(key);
  Board board;
  for (size_t cell = 0; const auto digit : drawn_order(shape.side(), numbers)) {
    board.write(layout, cell++, static_cast<Digits>(1 << digit));
  }
  Puzzle puzzle{.question = {}, .answer = Search(layout, 1, &numbers).from(board).answer};
  board = {};
  for (size_t cell = 0; cell < puzzle.answer.size(); ++cell) {
    board.write(layout, cell, static_cast<Digits>(1 << (puzzle.answer[cell] - 1)));
  }
  const sudoku::Swaps swaps(layout, puzzle.answer);
  for (const auto cell : drawn_order(shape.cells(), numbers)) {
    const auto digit = board.written[cell];
    board.clear(layout, cell);
    if (follows(layout, board, cell, digit)) continue;
    if (swaps.leave_another(board, cell) || Search(layout, 1).differs_from(digit, cell, board)) {
      board.write(layout, cell, digit);
    }
  }
  puzzle.question = board.grid(layout);
  puzzle.rating = Search(layout, 2).from(board).vain;
  return puzzle;
}

Puzzle in_another_guise(const SudokuShape& shape, const Puzzle& puzzle, uint64_t key) {
  validate(shape);
  KeyedNumbers numbers(key);
  const auto side = static_cast<size_t>(shape.side());
  const auto digits = drawn_order(shape.side(), numbers);
  const auto rows = drawn_lines(shape.box_columns, shape.box_rows, numbers);
  const auto columns = drawn_lines(shape.box_rows, shape.box_columns, numbers);
  const bool mirrored = shape.box_rows == shape.box_columns && numbers.below(2) == 1;
  const auto other = [&](const PuzzleGrid& grid) {
    PuzzleGrid result(grid.size());
    for (size_t cell = 0; cell < grid.size(); ++cell) {
      const size_t row = rows[cell / side], column = columns[cell % side];
      const auto digit = grid[mirrored ? column * side + row : row * side + column];
      result[cell] = digit == 0 ? uint8_t{0} : static_cast<uint8_t>(digits[digit - 1U] + 1);
    }
    return result;
  };
  return {
      .question = other(puzzle.question), .answer = other(puzzle.answer), .rating = puzzle.rating};
}

std::optional<std::string> fault_of_answer(const SudokuShape& shape, const PuzzleGrid& question,
                                           const PuzzleGrid& answer) {
  if (std::ranges::count(answer, 0) > 0 || solve_sudoku(shape, answer, 1).solutions == 0) {
    return "the answer is no filled grid";
  }
  for (size_t cell = 0; cell < question.size(); ++cell) {
    if (question[cell] != 0 && question[cell] != answer[cell]) {
      return "the answer does not have the question's digits";
    }
  }
  return std::nullopt;
}

}  // namespace deq::lab

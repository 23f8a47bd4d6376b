#include "deq/lab/data/puzzles/sudoku_text.h"

#include "core/require.h"

namespace deq::lab {
namespace {

char letter_of(uint8_t digit) {
  return digit == 0 ? '.' : static_cast<char>('0' + digit);
}

uint8_t digit_of(char letter) {
  return letter == '.' ? uint8_t{0} : static_cast<uint8_t>(letter - '0');
}

}  // namespace

std::optional<SudokuShape> sudoku_shape(size_t cells) {
  for (const auto& shape : {SudokuShape{2, 2}, {2, 3}, {2, 4}, {3, 3}}) {
    if (static_cast<size_t>(shape.cells()) == cells) return shape;
  }
  return std::nullopt;
}

std::string sudoku_line(const PuzzleGrid& grid) {
  std::string text;
  for (const auto digit : grid) text += letter_of(digit);
  return text;
}

PuzzleGrid sudoku_from_line(const SudokuShape& shape, std::string_view line) {
  require(static_cast<int64_t>(line.size()) == shape.cells(), "{} cells where {} are expected",
          line.size(), shape.cells());
  PuzzleGrid grid;
  for (const char letter : line) {
    const bool known = letter == '.' || (letter >= '0' && letter <= '0' + shape.side());
    require(known, "'{}' is neither a digit up to {} nor a blank", letter, shape.side());
    grid.push_back(digit_of(letter));
  }
  return grid;
}

std::string draw_sudoku(const SudokuShape& shape, const PuzzleGrid& grid) {
  const auto side = shape.side();
  std::string between;
  for (int64_t box = 0; box < side / shape.box_columns; ++box) {
    if (box > 0) between += '+';
    between.append(static_cast<size_t>(2 * shape.box_columns - 1), '-');
  }
  std::string text;
  for (int64_t row = 0; row < side; ++row) {
    if (row > 0 && row % shape.box_rows == 0) text += between + '\n';
    for (int64_t column = 0; column < side; ++column) {
      if (column > 0) text += column % shape.box_columns == 0 ? "|" : " ";
      text += letter_of(grid[static_cast<size_t>(row * side + column)]);
    }
    text += '\n';
  }
  return text;
}

PuzzleGrid parse_sudoku(std::string_view text) {
  PuzzleGrid grid;
  for (const char letter : text) {
    if (std::string_view(" \t\r\n|+-").find(letter) != std::string_view::npos) continue;
    require(letter == '.' || (letter >= '0' && letter <= '9'),
            "a puzzle consists of digits and of dots for its blanks; it has other signs, too");
    grid.push_back(digit_of(letter));
  }
  const auto shape = sudoku_shape(grid.size());
  require(shape.has_value(), "a puzzle of {} cells, where 16, 36, 64 or 81 are expected",
          grid.size());
  for (const auto digit : grid) {
    require(digit <= shape->side(), "a puzzle of {} × {} cells has the digit {}", shape->side(),
            shape->side(), static_cast<int>(digit));
  }
  return grid;
}

}  // namespace deq::lab

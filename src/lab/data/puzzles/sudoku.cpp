#include "deq/lab/data/puzzles/sudoku.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>

#include "core/require.h"
#include "lab/base/keyed_numbers.h"

namespace deq::lab {
namespace {

constexpr int kMostSide = 9, kMostCells = kMostSide * kMostSide, kMostUnits = 3 * kMostSide;

using Digits = uint16_t;  // a bit for each

// std::popcount is a call into a library where the instruction may be missing, and takes a third of
// a search.
bool is_one(Digits digits) {
  return digits != 0 && (digits & (digits - 1)) == 0;
}
constexpr auto kCounts = [] {
  std::array<uint8_t, 1 << kMostSide> counts{};
  for (size_t digits = 1; digits < counts.size(); ++digits) {
    counts[digits] = static_cast<uint8_t>(counts[digits / 2] + digits % 2);
  }
  return counts;
}();

/// Which cells make a row, a column or a box, and which of them a cell is in.
struct Layout {
  int side, cells, units;
  Digits all;
  std::array<std::array<uint8_t, kMostSide>, kMostUnits> cells_of;
  std::array<std::array<uint8_t, 3>, kMostCells> units_of;

  explicit Layout(const SudokuShape& shape)
      : side(static_cast<int>(shape.side())),
        cells(side * side),
        units(3 * side),
        all(static_cast<Digits>((1 << side) - 1)),
        cells_of{},
        units_of{} {
    const auto high = static_cast<int>(shape.box_rows), wide = static_cast<int>(shape.box_columns);
    std::array<int, kMostUnits> filled{};
    for (int cell = 0; cell < cells; ++cell) {
      const int row = cell / side, column = cell % side;
      const int box = row / high * (side / wide) + column / wide;
      const std::array<int, 3> own{row, side + column, 2 * side + box};
      for (size_t k = 0; k < own.size(); ++k) {
        const auto unit = static_cast<size_t>(own[k]);
        units_of[static_cast<size_t>(cell)][k] = static_cast<uint8_t>(own[k]);
        cells_of[unit][static_cast<size_t>(filled[unit]++)] = static_cast<uint8_t>(cell);
      }
    }
  }
};

/// What is written so far.
struct Board {
  std::array<Digits, kMostUnits> used{};
  std::array<Digits, kMostCells> written{};  // one bit, or none

  Digits free_at(const Layout& layout, size_t cell) const {
    const auto& unit = layout.units_of[cell];
    return layout.all & static_cast<Digits>(~(used[unit[0]] | used[unit[1]] | used[unit[2]]));
  }
  void write(const Layout& layout, size_t cell, Digits digit) {
    written[cell] = digit;
    for (const auto unit : layout.units_of[cell]) used[unit] |= digit;
  }
  void clear(const Layout& layout, size_t cell) {
    const auto digit = std::exchange(written[cell], Digits{0});
    for (const auto unit : layout.units_of[cell]) used[unit] &= static_cast<Digits>(~digit);
  }
  PuzzleGrid grid(const Layout& layout) const {
    PuzzleGrid result(static_cast<size_t>(layout.cells));
    for (size_t cell = 0; cell < result.size(); ++cell) {
      result[cell] = static_cast<uint8_t>(std::bit_width(written[cell]));
    }
    return result;
  }
};

class Search {
 public:
  /// Digits are tried in an order that is drawn where there are numbers to draw from.
  Search(const Layout& layout, int64_t most, KeyedNumbers* numbers = nullptr)
      : layout_(layout), most_(most), numbers_(numbers) {}

  SudokuSearch from(const Board& board) {
    go_on(board);
    return std::move(result_);
  }

 private:
  using Candidates = std::array<Digits, kMostCells>;

  /// Whether there is a solution.
  bool go_on(Board board) {
    Candidates candidates;
    if (!write_what_must_be(board, candidates)) return false;
    const auto cell = with_fewest(candidates);
    if (!cell) {
      if (++result_.solutions == 1) result_.answer = board.grid(layout_);
      return true;
    }
    bool found = false;
    for (Digits left = candidates[*cell]; left != 0 && result_.solutions < most_;) {
      const Digits digit = next_of(left);
      left &= static_cast<Digits>(~digit);
      Board next = board;
      next.write(layout_, *cell, digit);
      const bool good = go_on(next);
      result_.vain += good ? 0 : 1;
      found = found || good;
    }
    return found;
  }

  Digits next_of(Digits digits) {
    if (numbers_ != nullptr) {
      for (auto skipped = numbers_->below(kCounts[digits]); skipped > 0; --skipped) {
        digits &= static_cast<Digits>(digits - 1);
      }
    }
    return digits & static_cast<Digits>(-digits);
  }

  /// False where the board has no solution.
  bool write_what_must_be(Board& board, Candidates& candidates) const {
    std::array<uint8_t, kMostCells> blank;
    size_t blanks = 0;
    candidates.fill(0);
    for (size_t cell = 0; cell < static_cast<size_t>(layout_.cells); ++cell) {
      if (board.written[cell] == 0) blank[blanks++] = static_cast<uint8_t>(cell);
    }
    for (bool written = true; written;) {
      written = false;
      std::array<Digits, kMostUnits> once{}, twice{};
      const size_t before = std::exchange(blanks, size_t{0});
      for (size_t k = 0; k < before; ++k) {
        const size_t cell = blank[k];
        if (board.written[cell] != 0) continue;
        const auto free = board.free_at(layout_, cell);
        if (free == 0) return false;
        if (is_one(free)) {
          board.write(layout_, cell, free);
          candidates[cell] = 0;
          written = true;
          continue;
        }
        blank[blanks++] = static_cast<uint8_t>(cell);
        candidates[cell] = free;
        for (const auto unit : layout_.units_of[cell]) {
          twice[unit] |= once[unit] & free;
          once[unit] |= free;
        }
      }
      // What was written meanwhile is still among the digits of cells that came before: then a
      // digit that stands alone is seen in the next round.
      for (size_t unit = 0; unit < static_cast<size_t>(layout_.units); ++unit) {
        if ((once[unit] | board.used[unit]) != layout_.all) return false;
        const auto alone = static_cast<Digits>(once[unit] & ~twice[unit] & ~board.used[unit]);
        if (alone == 0) continue;
        if (!write_alone(board, candidates, unit, alone)) return false;
        written = true;
      }
    }
    return true;
  }

  /// Digits that have one cell left in a unit.
  bool write_alone(Board& board, Candidates& candidates, size_t unit, Digits alone) const {
    for (int k = 0; k < layout_.side; ++k) {
      const size_t cell = layout_.cells_of[unit][static_cast<size_t>(k)];
      const auto own = static_cast<Digits>(candidates[cell] & alone);
      if (own == 0) continue;
      // Two that need the same cell, or one that another unit has got meanwhile.
      if (!is_one(own) || (board.free_at(layout_, cell) & own) == 0) return false;
      board.write(layout_, cell, own);
      candidates[cell] = 0;
    }
    return true;
  }

  std::optional<size_t> with_fewest(const Candidates& candidates) const {
    std::optional<size_t> best;
    int fewest = kMostSide + 1;
    for (size_t cell = 0; cell < static_cast<size_t>(layout_.cells); ++cell) {
      const int count = kCounts[candidates[cell]];
      if (count == 0 || count >= fewest) continue;
      best = cell;
      fewest = count;
      if (fewest == 2) break;
    }
    return best;
  }

  const Layout& layout_;
  int64_t most_;
  KeyedNumbers* numbers_;
  SudokuSearch result_;
};

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

/// Whether there is a solution with another digit in a blank cell.
bool has_another(const Layout& layout, const Board& board, size_t cell, Digits digit) {
  for (auto left = static_cast<Digits>(board.free_at(layout, cell) & ~digit); left != 0;
       left &= static_cast<Digits>(left - 1)) {
    Board other = board;
    other.write(layout, cell, left & static_cast<Digits>(-left));
    if (Search(layout, 1).from(other).solutions > 0) return true;
  }
  return false;
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
  for (const auto cell : drawn_order(shape.cells(), numbers)) {
    const auto digit = board.written[cell];
    board.clear(layout, cell);
    if (follows(layout, board, cell, digit)) continue;
    if (has_another(layout, board, cell, digit)) board.write(layout, cell, digit);
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

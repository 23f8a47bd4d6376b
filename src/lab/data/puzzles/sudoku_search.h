#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "deq/lab/data/puzzles/sudoku.h"
#include "lab/base/keyed_numbers.h"

// The search for the solutions of a Sudoku.

namespace deq::lab::sudoku {

inline constexpr int kMostSide = 9, kMostCells = kMostSide * kMostSide, kMostUnits = 3 * kMostSide;
/// Units are looked at side by side, in whole registers.
inline constexpr size_t kLanes = 32;

using Digits = uint16_t;  // a bit for each

// std::popcount is a call into a library where the instruction may be missing, and takes a third of
// a search.
inline bool is_one_or_none(Digits digits) {
  return (digits & (digits - 1)) == 0;
}
inline constexpr auto kCounts = [] {
  std::array<uint8_t, 1 << kMostSide> counts{};
  for (size_t digits = 1; digits < counts.size(); ++digits) {
    counts[digits] = static_cast<uint8_t>(counts[digits / 2] + digits % 2);
  }
  return counts;
}();

/// Which cells make a row, a column or a box, and which of them a cell is in.
struct Layout {
  int side, cells, high, wide;
  Digits all;
  std::array<std::array<uint8_t, kMostSide>, kMostUnits> cells_of{};
  std::array<std::array<uint8_t, 3>, kMostCells> units_of{};
  /// Of each unit of a cell: its place there, times kLanes, plus the unit.
  std::array<std::array<uint16_t, 3>, kMostCells> lanes_of{};
  std::array<Digits, kLanes> all_of{};  ///< the digits of a unit
  /// All cells, as they are visited: neighbours in this order share no unit, so that nothing waits
  /// for what was just stored.
  std::array<uint8_t, kMostCells> round{};

  size_t place_in(size_t cell, size_t unit) const {
    return lanes_of[cell][unit / static_cast<size_t>(side)] / kLanes;
  }

  explicit Layout(const SudokuShape& shape)
      : side(static_cast<int>(shape.side())),
        cells(side * side),
        high(static_cast<int>(shape.box_rows)),
        wide(static_cast<int>(shape.box_columns)),
        all(static_cast<Digits>((1 << side) - 1)) {
    std::array<size_t, kMostUnits> filled{};
    for (int cell = 0; cell < cells; ++cell) {
      const int row = cell / side, column = cell % side;
      const int box = row / high * (side / wide) + column / wide;
      const std::array<int, 3> own{row, side + column, 2 * side + box};
      for (size_t k = 0; k < own.size(); ++k) {
        const auto unit = static_cast<size_t>(own[k]);
        const auto place = filled[unit]++;
        all_of[unit] = all;
        units_of[static_cast<size_t>(cell)][k] = static_cast<uint8_t>(unit);
        lanes_of[static_cast<size_t>(cell)][k] = static_cast<uint16_t>(place * kLanes + unit);
        cells_of[unit][place] = static_cast<uint8_t>(cell);
      }
    }
    for (int k = 0; k < cells; ++k) {
      const int row = k % side, column = (k / side + row % high * wide + row / high) % side;
      round[static_cast<size_t>(k)] = static_cast<uint8_t>(row * side + column);
    }
  }
};

/// What is written so far.
struct Board {
  std::array<Digits, kLanes> used{};         // in each unit
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
      : layout_(layout), most_(most), numbers_(numbers) {
    allowed_.fill(layout.all);
  }

  SudokuSearch from(const Board& board) {
    go_on(board);
    return std::move(result_);
  }

  /// Whether there is a solution with another digit in a blank cell.
  bool differs_from(Digits digit, size_t cell, const Board& board) {
    allowed_[cell] &= static_cast<Digits>(~digit);
    return go_on(board);
  }

 private:
  /// What can stand in the blank cells, by place and unit: in three lanes for each cell.
  struct Candidates {
    std::array<Digits, kMostSide * kLanes> lanes{};

    Digits at(const Layout& layout, size_t cell) const { return lanes[layout.lanes_of[cell][0]]; }
    void set(const Layout& layout, size_t cell, Digits digits) {
      for (const auto lane : layout.lanes_of[cell]) lanes[lane] = digits;
    }
  };

  struct Blanks {
    std::array<uint8_t, kMostCells> cells;
    size_t count = 0;
  };

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
    for (Digits left = candidates.at(layout_, *cell); left != 0 && result_.solutions < most_;) {
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

  /// False where the board has no solution. In which order digits are written does not matter:
  /// what can be written stays so, until it is or there is no solution.
  bool write_what_must_be(Board& board, Candidates& candidates) const {
    Blanks blanks;
    for (size_t k = 0; k < static_cast<size_t>(layout_.cells); ++k) {
      const auto cell = layout_.round[k];
      blanks.cells[blanks.count] = cell;
      blanks.count += board.written[cell] == 0 ? 1 : 0;
    }
    bool written = true;
    while (written) {
      written = false;
      if (!write_singles(board, candidates, blanks, written)) return false;
      // Candidates are those of the board when nothing has been written meanwhile.
      if (!written && !write_all_alone(board, candidates, written)) return false;
    }
    return true;
  }

  /// Cells in which one digit can stand.
  bool write_singles(Board& board, Candidates& candidates, Blanks& blanks, bool& written) const {
    size_t left = 0;
    bool any = false;
    for (size_t k = 0; k < blanks.count; ++k) {
      const size_t cell = blanks.cells[k];
      if (board.written[cell] != 0) continue;
      auto free = static_cast<Digits>(board.free_at(layout_, cell) & allowed_[cell]);
      if (is_one_or_none(free)) {
        if (free == 0) return false;
        board.write(layout_, cell, free);
        any = true;
        free = 0;
      } else {
        blanks.cells[left++] = static_cast<uint8_t>(cell);
      }
      candidates.set(layout_, cell, free);
    }
    blanks.count = left;
    written = any;
    return true;
  }

  /// Digits that have one cell left in a unit.
  bool write_all_alone(Board& board, Candidates& candidates, bool& written) const {
    std::array<Digits, kLanes> once{}, twice{};
    for (size_t place = 0; place < static_cast<size_t>(layout_.side); ++place) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const Digits free = candidates.lanes[place * kLanes + lane];
        twice[lane] |= once[lane] & free;
        once[lane] |= free;
      }
    }
    Digits missing = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      missing |= layout_.all_of[lane] & static_cast<Digits>(~(once[lane] | board.used[lane]));
      once[lane] &= static_cast<Digits>(~twice[lane]);
    }
    if (missing != 0) return false;
    for (size_t unit = 0; unit < static_cast<size_t>(3 * layout_.side); ++unit) {
      if (once[unit] == 0) continue;
      if (!write_alone(board, candidates, unit, once[unit])) return false;
      written = true;
    }
    return true;
  }

  bool write_alone(Board& board, Candidates& candidates, size_t unit, Digits alone) const {
    for (size_t place = 0; place < static_cast<size_t>(layout_.side); ++place) {
      const auto own = static_cast<Digits>(candidates.lanes[place * kLanes + unit] & alone);
      if (own == 0) continue;
      const size_t cell = layout_.cells_of[unit][place];
      // Two that need the same cell, or one that another unit has got meanwhile.
      if (!is_one_or_none(own) || (board.free_at(layout_, cell) & own) == 0) return false;
      board.write(layout_, cell, own);
      candidates.set(layout_, cell, 0);
    }
    return true;
  }

  std::optional<size_t> with_fewest(const Candidates& candidates) const {
    std::optional<size_t> best;
    int fewest = kMostSide + 1;
    for (size_t cell = 0; cell < static_cast<size_t>(layout_.cells); ++cell) {
      const int count = kCounts[candidates.at(layout_, cell)];
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
  std::array<Digits, kMostCells> allowed_;
  SudokuSearch result_;
};

}  // namespace deq::lab::sudoku

#pragma once

#include <array>
#include <bitset>

#include "lab/data/puzzles/sudoku_search.h"

namespace deq::lab::sudoku {

/// Other solutions that are seen without a search: those that come of a filled grid when two
/// digits, or two rows or columns that pass the same boxes, change places in some of its cells.
/// That is so where all these cells are blank. Every other digit that a puzzle needs is found out
/// in this way.
class Swaps {
 public:
  Swaps(const Layout& layout, const PuzzleGrid& answer) : layout_(layout) {
    for (size_t cell = 0; cell < answer.size(); ++cell) {
      digit_in_[cell] = static_cast<uint8_t>(answer[cell] - 1);
      for (const auto unit : layout.units_of[cell]) {
        cell_of_[digit_in_[cell]][unit] = static_cast<uint8_t>(cell);
      }
    }
  }

  /// Whether one of them has another digit in a blank cell: if so, it is a solution of the board,
  /// which holds digits of the answer. If not, there may be others.
  bool leave_another(const Board& board, size_t cell) const {
    return lines_leave_another(board, cell) || digits_leave_another(board, cell);
  }

 private:
  bool lines_leave_another(const Board& board, size_t cell) const {
    const auto side = static_cast<size_t>(layout_.side);
    return lines_leave_another(board, cell, cell / side, 0, static_cast<size_t>(layout_.high)) ||
           lines_leave_another(board, cell, cell % side, side, static_cast<size_t>(layout_.wide));
  }

  /// Rows or columns, which are units from `first_unit` on; `together` of them pass the same boxes.
  bool lines_leave_another(const Board& board, size_t cell, size_t line, size_t first_unit,
                           size_t together) const {
    const size_t first = line / together * together;
    for (size_t other = first; other < first + together; ++other) {
      if (other != line && lines_swap(board, cell, first_unit + line, first_unit + other)) {
        return true;
      }
    }
    return false;
  }

  /// Places in a line, from the cell's on: what the other line has there comes into this one, so
  /// its place in this line is next.
  bool lines_swap(const Board& board, size_t first, size_t line, size_t other) const {
    size_t cell = first;
    do {
      const size_t place = layout_.place_in(cell, line);
      const size_t opposite = layout_.cells_of[other][place];
      if (board.written[opposite] != 0) return false;
      cell = cell_of_[digit_in_[opposite]][line];
      if (board.written[cell] != 0) return false;
    } while (cell != first);
    return true;
  }

  bool digits_leave_another(const Board& board, size_t cell) const {
    for (size_t digit = 0; digit < static_cast<size_t>(layout_.side); ++digit) {
      if (digit != digit_in_[cell] && digits_swap(board, cell, digit)) return true;
    }
    return false;
  }

  /// Cells of the two digits, from one on: where one gets the other digit, those that have it in
  /// the same units get the first.
  bool digits_swap(const Board& board, size_t first, size_t digit) const {
    std::array<uint8_t, 2 * kMostSide> cells;
    std::bitset<kMostCells> known;
    size_t count = 0;
    const auto add = [&](size_t cell) {
      if (known.test(cell)) return;
      known.set(cell);
      cells[count++] = static_cast<uint8_t>(cell);
    };
    add(first);
    const size_t own = digit_in_[first];
    for (size_t k = 0; k < count; ++k) {
      const auto& with_other = cell_of_[digit_in_[cells[k]] == own ? digit : own];
      for (const auto unit : layout_.units_of[cells[k]]) {
        if (board.written[with_other[unit]] != 0) return false;
        add(with_other[unit]);
      }
    }
    return true;
  }

  const Layout& layout_;
  std::array<uint8_t, kMostCells> digit_in_{};  // from 0 on
  std::array<std::array<uint8_t, kMostUnits>, kMostSide> cell_of_{};
};

}  // namespace deq::lab::sudoku

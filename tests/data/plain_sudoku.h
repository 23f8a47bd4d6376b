#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "deq/lab/data/puzzles/sudoku.h"
#include "lab/base/keyed_numbers.h"

namespace deq::test {

/// Makes Sudokus as make_sudoku() does, from grids and sets alone: the oracle.
class PlainSudoku {
 public:
  explicit PlainSudoku(const lab::SudokuShape& shape) : shape_(shape) {
    const auto side = static_cast<size_t>(shape.side());
    const auto high = static_cast<size_t>(shape.box_rows),
               wide = static_cast<size_t>(shape.box_columns);
    units_.resize(3 * side);
    for (size_t cell = 0; cell < side * side; ++cell) {
      const size_t row = cell / side, column = cell % side;
      units_[row].push_back(cell);
      units_[side + column].push_back(cell);
      units_[2 * side + row / high * high + column / wide].push_back(cell);
    }
  }

  lab::Puzzle make(uint64_t key) const {
    lab::KeyedNumbers numbers(key);
    lab::PuzzleGrid grid(static_cast<size_t>(shape_.cells()));
    const auto first_row = drawn_order(shape_.side(), numbers);
    std::ranges::transform(first_row, grid.begin(),
                           [](size_t digit) { return static_cast<uint8_t>(digit + 1); });
    lab::Puzzle puzzle{.question = {}, .answer = search(grid, 1, &numbers).answer};
    puzzle.question = puzzle.answer;
    for (const auto cell : drawn_order(shape_.cells(), numbers)) {
      const auto digit = std::exchange(puzzle.question[cell], uint8_t{0});
      if (search(puzzle.question, 2).solutions > 1) puzzle.question[cell] = digit;
    }
    puzzle.rating = search(puzzle.question, 2).vain;
    return puzzle;
  }

 private:
  using Candidates = std::vector<std::set<uint8_t>>;

  static std::vector<size_t> drawn_order(int64_t count, lab::KeyedNumbers& numbers) {
    std::vector<size_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), size_t{0});
    for (int64_t k = count - 1; k > 0; --k) {
      std::swap(order[static_cast<size_t>(k)], order[static_cast<size_t>(numbers.below(k + 1))]);
    }
    return order;
  }

  lab::SudokuSearch search(const lab::PuzzleGrid& grid, int64_t most,
                           lab::KeyedNumbers* numbers = nullptr) const {
    lab::SudokuSearch result;
    go_on(grid, most, numbers, result);
    return result;
  }

  bool go_on(lab::PuzzleGrid grid, int64_t most, lab::KeyedNumbers* numbers,
             lab::SudokuSearch& result) const {
    Candidates candidates;
    do {
      candidates = candidates_of(grid);
      if (has_no_solution(grid, candidates)) return false;
    } while (write_one(grid, candidates));
    const auto cell = with_fewest(grid, candidates);
    if (cell == grid.size()) {
      if (++result.solutions == 1) result.answer = grid;
      return true;
    }
    bool found = false;
    for (auto& left = candidates[cell]; !left.empty() && result.solutions < most;) {
      const auto count = static_cast<int64_t>(left.size());
      const auto chosen = std::next(left.begin(), numbers == nullptr ? 0 : numbers->below(count));
      grid[cell] = *chosen;
      left.erase(chosen);
      const bool good = go_on(grid, most, numbers, result);
      result.vain += good ? 0 : 1;
      found = found || good;
    }
    return found;
  }

  Candidates candidates_of(const lab::PuzzleGrid& grid) const {
    Candidates candidates(grid.size());
    for (size_t cell = 0; cell < grid.size(); ++cell) {
      if (grid[cell] != 0) continue;
      for (uint8_t digit = 1; digit <= shape_.side(); ++digit) candidates[cell].insert(digit);
    }
    for (const auto& unit : units_) {
      for (const auto written : unit) {
        for (const auto cell : unit) candidates[cell].erase(grid[written]);
      }
    }
    return candidates;
  }

  /// Cells of a unit in which a digit stands or can stand.
  static std::vector<size_t> places_of(uint8_t digit, const std::vector<size_t>& unit,
                                       const lab::PuzzleGrid& grid, const Candidates& candidates) {
    std::vector<size_t> places;
    std::ranges::copy_if(unit, std::back_inserter(places), [&](size_t cell) {
      return grid[cell] == digit || candidates[cell].contains(digit);
    });
    return places;
  }

  bool has_no_solution(const lab::PuzzleGrid& grid, const Candidates& candidates) const {
    for (size_t cell = 0; cell < grid.size(); ++cell) {
      if (grid[cell] == 0 && candidates[cell].empty()) return true;
    }
    for (const auto& unit : units_) {
      for (uint8_t digit = 1; digit <= shape_.side(); ++digit) {
        if (places_of(digit, unit, grid, candidates).empty()) return true;
      }
    }
    return false;
  }

  bool write_one(lab::PuzzleGrid& grid, const Candidates& candidates) const {
    for (size_t cell = 0; cell < grid.size(); ++cell) {
      if (candidates[cell].size() != 1) continue;
      grid[cell] = *candidates[cell].begin();
      return true;
    }
    for (const auto& unit : units_) {
      for (uint8_t digit = 1; digit <= shape_.side(); ++digit) {
        const auto places = places_of(digit, unit, grid, candidates);
        if (places.size() != 1 || grid[places[0]] != 0) continue;
        grid[places[0]] = digit;
        return true;
      }
    }
    return false;
  }

  /// The first of them, or the number of cells where none is blank.
  static size_t with_fewest(const lab::PuzzleGrid& grid, const Candidates& candidates) {
    size_t best = grid.size();
    for (size_t cell = 0; cell < grid.size(); ++cell) {
      if (grid[cell] != 0) continue;
      if (best == grid.size() || candidates[cell].size() < candidates[best].size()) best = cell;
    }
    return best;
  }

  lab::SudokuShape shape_;
  std::vector<std::vector<size_t>> units_;
};

}  // namespace deq::test

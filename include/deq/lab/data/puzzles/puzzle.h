#pragma once

#include <cstdint>
#include <vector>

namespace deq::lab {

/// What stands in each cell, row by row, as a number from 0 on; its kind of puzzle says what it
/// means.
using PuzzleGrid = std::vector<uint8_t>;

/// A question with its answer.
struct Puzzle {
  PuzzleGrid question, answer;
  int64_t rating = 0;  ///< how hard it is, as its kind counts

  bool operator==(const Puzzle&) const = default;
};

}  // namespace deq::lab

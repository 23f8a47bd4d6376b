// Tables of Sudoku puzzles with their answers.

#include "deq/lab/data/puzzles/sudoku_set.h"
#include "fuzz/fuzz.h"

namespace deq::fuzz {

const size_t kSpareBytes = size_t{4} << 20;

void read(std::string_view input) {
  const auto path = put("puzzles.csv", input);
  const auto set = lab::read_sudokus(path);
  lab::write_sudokus(path, set);
  const auto again = lab::read_sudokus(path);
  promise(again.shape == set.shape && again.puzzles == set.puzzles,
          "puzzles read back otherwise than they were written");
}

}  // namespace deq::fuzz

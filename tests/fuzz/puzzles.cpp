// Tables of puzzles with their answers: Sudokus and mazes.

#include "deq/lab/data/puzzles/puzzle_set.h"
#include "fuzz/fuzz.h"

namespace deq::fuzz {

const size_t kSpareBytes = size_t{4} << 20;

void read(std::string_view input) {
  const auto path = put("puzzles.csv", input);
  const auto set = lab::read_puzzles(path);
  lab::write_puzzles(path, set);
  const auto again = lab::read_puzzles(path);
  promise(again.shape == set.shape && again.puzzles == set.puzzles,
          "puzzles read back otherwise than they were written");
}

}  // namespace deq::fuzz

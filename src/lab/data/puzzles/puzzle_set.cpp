#include "deq/lab/data/puzzles/puzzle_set.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>

#include "core/format.h"
#include "core/require.h"
#include "lab/base/random_streams.h"
#include "lab/data/batches/in_parallel.h"

namespace deq::lab {
namespace {

constexpr int64_t kAtOnce = 2048;  // puzzles between two reports of progress

std::optional<Puzzle> drawn(const SudokuWanted& wanted, uint64_t key) {
  auto puzzle = make_sudoku(wanted.shape, key);
  if (puzzle.rating < wanted.least_rating) return std::nullopt;
  return puzzle;
}

std::optional<Puzzle> drawn(const MazeWanted& wanted, uint64_t key) {
  return make_maze(wanted.shape, wanted.least_path, wanted.most_path, key);
}

std::string name_of(const SudokuWanted& wanted) {
  return fmt::format("Sudoku of {} with a rating of {} or more", size_of(wanted.shape),
                     wanted.least_rating);
}

std::string name_of(const MazeWanted& wanted) {
  return fmt::format("maze of {} with a path of {} to {} cells", size_of(wanted.shape),
                     wanted.least_path, wanted.most_path);
}

/// Tries at one puzzle: so many that those who want what is rare get it, and those who want what
/// does not exist are told so in seconds. Hard Sudokus are rare.
constexpr int64_t tries_at(const SudokuWanted&) {
  return 1'000'000;
}
constexpr int64_t tries_at(const MazeWanted&) {
  return 100'000;
}

/// Makes the puzzles of a set one by one.
template <class Wanted>
class PuzzleMaker {
 public:
  PuzzleMaker(const Wanted& wanted, uint64_t seed) : wanted_(wanted), seed_(seed) {}

  /// Puzzle `index` of the set: the first one of its tries, from one on, that is as it is wanted.
  /// Gives the number of that try too.
  std::pair<Puzzle, int64_t> find(int64_t index, int64_t first_try) const {
    const auto stream = static_cast<uint64_t>(RandomStream::Puzzles);
    const auto own = deq::random_key(seed_, stream, static_cast<uint64_t>(index));
    for (int64_t k = first_try; k < tries_at(wanted_); ++k) {
      auto puzzle = drawn(wanted_, deq::random_key(own, static_cast<uint64_t>(k)));
      if (puzzle) return {std::move(*puzzle), k};
    }
    throw Error(
        fmt::format("after {} tries there is no other {}", tries_at(wanted_), name_of(wanted_)));
  }

 private:
  Wanted wanted_;
  uint64_t seed_;
};

template <class Wanted>
std::vector<Puzzle> made(const Wanted& wanted, const PuzzleSetOptions& options) {
  const auto threads = options.threads > 0
                           ? options.threads
                           : std::max<int64_t>(1, std::thread::hardware_concurrency());
  const PuzzleMaker maker(wanted, options.seed);
  std::vector<Puzzle> puzzles(static_cast<size_t>(options.count));
  std::vector<int64_t> tries(puzzles.size());
  std::unordered_set<std::string> known;
  for (int64_t first = 0; first < options.count; first += kAtOnce) {
    const auto last = std::min(first + kAtOnce, options.count);
    in_parallel(threads, [&](int64_t thread) {
      for (int64_t i = first + thread; i < last; i += threads) {
        const auto at = static_cast<size_t>(i);
        std::tie(puzzles[at], tries[at]) = maker.find(i, 0);
      }
    });
    // In order, so that it does not depend on the threads which of two equal ones is made anew.
    for (auto at = static_cast<size_t>(first); at < static_cast<size_t>(last); ++at) {
      const auto is_new = [&] {
        const auto& question = puzzles[at].question;
        return known.emplace(question.begin(), question.end()).second;
      };
      while (!is_new()) {
        std::tie(puzzles[at], tries[at]) = maker.find(static_cast<int64_t>(at), tries[at] + 1);
      }
    }
    if (options.progress) options.progress(last, options.count);
  }
  return puzzles;
}

}  // namespace

PuzzleSet make_puzzles(const PuzzleSetOptions& options) {
  return std::visit(
      [&](const auto& wanted) {
        return PuzzleSet{.shape = wanted.shape, .puzzles = made(wanted, options)};
      },
      options.wanted);
}

}  // namespace deq::lab

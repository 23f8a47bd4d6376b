#include "deq/lab/data/puzzles/sudoku_set.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <unordered_set>

#include "core/require.h"
#include "deq/lab/data/puzzles/sudoku_text.h"
#include "deq/lab/io/atomic_file.h"
#include "lab/base/random_streams.h"
#include "lab/data/batches/in_parallel.h"

namespace deq::lab {
namespace {

constexpr int64_t kMostTries = 1'000'000;  // at one puzzle
constexpr int64_t kAtOnce = 2048;          // puzzles between two reports of progress

/// Puzzle `index` of a set: the first one of its tries, from one on, that is hard enough. Gives the
/// number of that try too.
std::pair<Sudoku, int64_t> find_sudoku(const SudokuSetOptions& options, int64_t index,
                                       int64_t first_try) {
  const auto stream = static_cast<uint64_t>(RandomStream::Puzzles);
  const auto own = deq::random_key(options.seed, stream, static_cast<uint64_t>(index));
  for (int64_t k = first_try; k < kMostTries; ++k) {
    auto puzzle = make_sudoku(options.shape, deq::random_key(own, static_cast<uint64_t>(k)));
    if (puzzle.rating >= options.least_rating) return {std::move(puzzle), k};
  }
  throw Error(
      fmt::format("after {} tries there is no other Sudoku of {} × {} with a rating of {} or more",
                  kMostTries, options.shape.side(), options.shape.side(), options.least_rating));
}

/// One line of the table.
class Line {
 public:
  Line(const std::string& text, std::string where) : fields_(text), where_(std::move(where)) {}

  std::string next() {
    std::string field;
    std::getline(fields_, field, ',');
    return field;
  }

  SudokuGrid grid(std::string_view text, const SudokuShape& shape) const {
    require(static_cast<int64_t>(text.size()) == shape.cells(),
            "{}: {} cells where {} are expected", where_, text.size(), shape.cells());
    SudokuGrid grid;
    for (const char letter : text) {
      const bool known = letter == '.' || (letter >= '0' && letter <= '0' + shape.side());
      require(known, "{}: '{}' is neither a digit up to {} nor a blank", where_, letter,
              shape.side());
      grid.push_back(letter == '.' ? uint8_t{0} : static_cast<uint8_t>(letter - '0'));
    }
    return grid;
  }

  int64_t rating(std::string_view text) const {
    int64_t number = 0;
    if (text.empty()) return number;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    require(error == std::errc() && end == text.data() + text.size(),
            "{}: the rating is no whole number", where_);
    return number;
  }

  const std::string& where() const { return where_; }

 private:
  std::istringstream fields_;
  std::string where_;
};

}  // namespace

std::vector<Sudoku> make_sudokus(const SudokuSetOptions& options) {
  const auto threads = options.threads > 0
                           ? options.threads
                           : std::max<int64_t>(1, std::thread::hardware_concurrency());
  std::vector<Sudoku> puzzles(static_cast<size_t>(options.count));
  std::vector<int64_t> tries(puzzles.size());
  std::unordered_set<std::string> known;
  for (int64_t first = 0; first < options.count; first += kAtOnce) {
    const auto last = std::min(first + kAtOnce, options.count);
    in_parallel(threads, [&](int64_t thread) {
      for (int64_t i = first + thread; i < last; i += threads) {
        const auto at = static_cast<size_t>(i);
        std::tie(puzzles[at], tries[at]) = find_sudoku(options, i, 0);
      }
    });
    // In order, so that it does not depend on the threads which of two equal ones is made anew.
    for (auto at = static_cast<size_t>(first); at < static_cast<size_t>(last); ++at) {
      while (!known.insert(sudoku_line(puzzles[at].question)).second) {
        std::tie(puzzles[at], tries[at]) =
            find_sudoku(options, static_cast<int64_t>(at), tries[at] + 1);
      }
    }
    if (options.progress) options.progress(last, options.count);
  }
  return puzzles;
}

void write_sudokus(const std::filesystem::path& file, const SudokuSet& set,
                   const std::string& source) {
  std::string text = "source,question,answer,rating\n";
  for (const auto& puzzle : set.puzzles) {
    text += fmt::format("{},{},{},{}\n", source, sudoku_line(puzzle.question),
                        sudoku_line(puzzle.answer), puzzle.rating);
  }
  write_file_atomically(file, text);
}

SudokuSet read_sudokus(const std::filesystem::path& file) {
  std::istringstream lines(read_file(file));
  SudokuSet set;
  int64_t number = 0;
  for (std::string content; std::getline(lines, content);) {
    if (content.ends_with('\r')) content.pop_back();
    Line line(content, fmt::format("{}:{}", file.string(), ++number));
    if (number == 1) {
      require(content.starts_with("source,question,answer"),
              "{}: the first line is not \"source,question,answer,rating\"", line.where());
      continue;
    }
    line.next();
    const auto question = line.next(), answer = line.next();
    if (set.puzzles.empty()) {
      const auto shape = sudoku_shape(question.size());
      require(shape.has_value(), "{}: a question of {} cells, where 16, 36, 64 or 81 are expected",
              line.where(), question.size());
      set.shape = *shape;
    }
    Sudoku puzzle{.question = line.grid(question, set.shape),
                  .answer = line.grid(answer, set.shape),
                  .rating = line.rating(line.next())};
    require(std::ranges::count(puzzle.answer, 0) == 0 &&
                solve_sudoku(set.shape, puzzle.answer, 1).solutions == 1,
            "{}: the answer is no filled grid", line.where());
    for (size_t cell = 0; cell < puzzle.question.size(); ++cell) {
      require(puzzle.question[cell] == 0 || puzzle.question[cell] == puzzle.answer[cell],
              "{}: the answer does not have the question's digits", line.where());
    }
    set.puzzles.push_back(std::move(puzzle));
  }
  require(!set.puzzles.empty(), "{} holds no puzzles", file.string());
  return set;
}

}  // namespace deq::lab

// Tables of puzzles: writing and reading what puzzle_set.h describes.

#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/format.h"
#include "core/require.h"
#include "deq/lab/data/puzzles/puzzle_set.h"
#include "deq/lab/io/atomic_file.h"

namespace deq::lab {
namespace {

int64_t rating_in(std::string_view text) {
  int64_t number = 0;
  if (text.empty()) return number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size(),
          "the rating is no whole number");
  return number;
}

/// Adds the puzzle of one line to a set, whose shape is the first one's.
void add_line(const std::string& line, PuzzleSet& set) {
  std::istringstream fields(line);
  const auto next = [&fields] {
    std::string field;
    std::getline(fields, field, ',');
    return field;
  };
  next();  // where it comes from
  const auto question = next(), answer = next();
  if (set.puzzles.empty()) set.shape = shape_of_line(question);
  Puzzle puzzle{.question = grid_from_line(set.shape, question),
                .answer = grid_from_line(set.shape, answer),
                .rating = rating_in(next())};
  const auto fault = fault_of_answer(set.shape, puzzle.question, puzzle.answer);
  require(!fault, "{}", fault.value_or(""));
  set.puzzles.push_back(std::move(puzzle));
}

}  // namespace

void write_puzzles(const std::filesystem::path& file, const PuzzleSet& set,
                   const std::string& source) {
  std::string text = "source,question,answer,rating\n";
  for (const auto& puzzle : set.puzzles) {
    text += fmt::format("{},{},{},{}\n", source, line_of(set.shape, puzzle.question),
                        line_of(set.shape, puzzle.answer), puzzle.rating);
  }
  write_file_atomically(file, text);
}

PuzzleSet read_puzzles(const std::filesystem::path& file) {
  std::istringstream lines(read_file(file));
  PuzzleSet set;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    try {
      if (++number > 1) {
        add_line(line, set);
        continue;
      }
      require(line.starts_with("source,question,answer"),
              "the first line is not \"source,question,answer,rating\"");
    } catch (const Error& error) {
      throw Error(fmt::format("{}:{}: {}", file.string(), number, error.what()));
    }
  }
  require(!set.puzzles.empty(), "{} holds no puzzles", file.string());
  return set;
}

}  // namespace deq::lab

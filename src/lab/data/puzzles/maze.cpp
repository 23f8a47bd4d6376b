#include "deq/lab/data/puzzles/maze.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/require.h"
#include "lab/base/keyed_numbers.h"

namespace deq::lab {
namespace {

constexpr int64_t kMostLines = 100;

/// Which cells are open, with a rim around them that nobody enters: cells have numbers of their
/// own here.
class MazeField {
 public:
  explicit MazeField(const MazeShape& shape)
      : shape_(shape),
        width_(static_cast<size_t>(shape.columns) + 2),
        kinds_(width_ * (static_cast<size_t>(shape.rows) + 2), Kind::Rim) {
    for (int64_t cell = 0; cell < shape.cells(); ++cell) kinds_[number_of(cell)] = Kind::Closed;
  }

  size_t number_of(int64_t cell) const {
    return static_cast<size_t>(cell / shape_.columns + 1) * width_ +
           static_cast<size_t>(cell % shape_.columns + 1);
  }
  int64_t cell_of(size_t number) const {
    return static_cast<int64_t>(number / width_ - 1) * shape_.columns +
           static_cast<int64_t>(number % width_ - 1);
  }
  size_t size() const { return kinds_.size(); }

  void open(size_t number) { kinds_[number] = Kind::Open; }
  bool is_open(size_t number) const { return kinds_[number] == Kind::Open; }

  std::array<size_t, 4> beside(size_t number) const {
    return {number - width_, number - 1, number + 1, number + width_};
  }
  int open_beside(size_t number) const {
    int count = 0;
    for (const auto other : beside(number)) count += is_open(other) ? 1 : 0;
    return count;
  }
  /// Where opening it joins it to one open cell, so that a tree stays a tree.
  bool may_grow_to(size_t number) const {
    return kinds_[number] == Kind::Closed && open_beside(number) == 1;
  }

 private:
  enum class Kind : uint8_t { Rim, Closed, Open };

  MazeShape shape_;
  size_t width_;
  std::vector<Kind> kinds_;
};

constexpr int32_t kUnseen = -1;

/// How many steps every cell is from one, in the order in which a search sees them.
struct MazeDistances {
  std::vector<int32_t> steps;
  std::vector<size_t> seen;

  MazeDistances(const MazeField& field, size_t start) : steps(field.size(), kUnseen), seen{start} {
    steps[start] = 0;
    for (size_t k = 0; k < seen.size(); ++k) {
      for (const auto next : field.beside(seen[k])) {
        if (!field.is_open(next) || steps[next] != kUnseen) continue;
        steps[next] = steps[seen[k]] + 1;
        seen.push_back(next);
      }
    }
  }
};

/// Open cells that are a tree to which no cell can be added: from the newest cell that can grow, in
/// a direction that is drawn.
MazeField drawn_tree(const MazeShape& shape, KeyedNumbers& numbers) {
  MazeField field(shape);
  std::vector<size_t> way{field.number_of(numbers.below(shape.cells()))};
  field.open(way.back());
  while (!way.empty()) {
    std::array<size_t, 4> choices{};
    size_t count = 0;
    for (const auto next : field.beside(way.back())) {
      if (field.may_grow_to(next)) choices[count++] = next;
    }
    if (count == 0) {
      way.pop_back();
      continue;
    }
    const auto chosen = choices[static_cast<size_t>(numbers.below(static_cast<int64_t>(count)))];
    field.open(chosen);
    way.push_back(chosen);
  }
  return field;
}

size_t drawn_one(const std::vector<size_t>& list, KeyedNumbers& numbers) {
  return list[static_cast<size_t>(numbers.below(std::ssize(list)))];
}

int64_t only_one(const PuzzleGrid& question, MazeCell what, const char* name) {
  const auto count = std::ranges::count(question, what);
  require(count == 1, "a maze has one {}, not {}", name, count);
  return std::ranges::find(question, what) - question.begin();
}

}  // namespace

void validate(const MazeShape& shape) {
  const auto fits = [](int64_t lines) { return lines >= 2 && lines <= kMostLines; };
  require(fits(shape.rows) && fits(shape.columns),
          "a maze has 2 to {} rows and columns, not {} × {}", kMostLines, shape.rows,
          shape.columns);
}

MazeSearch solve_maze(const MazeShape& shape, const PuzzleGrid& question) {
  validate(shape);
  require(std::ssize(question) == shape.cells(), "a maze of {} × {} has {} cells, not {}",
          shape.rows, shape.columns, shape.cells(), question.size());
  require(std::ranges::all_of(question, [](uint8_t what) { return what < kMazePath; }),
          "a maze's question has walls, open cells, a start and a goal, nothing else");
  const auto start = only_one(question, kMazeStart, "start");
  const auto goal = only_one(question, kMazeGoal, "goal");
  MazeField field(shape);
  for (int64_t cell = 0; cell < shape.cells(); ++cell) {
    if (question[static_cast<size_t>(cell)] != kMazeWall) field.open(field.number_of(cell));
  }
  const MazeDistances found(field, field.number_of(start));
  int64_t sides = 0;  // twice the number of pairs that touch
  for (const auto number : found.seen) sides += field.open_beside(number);
  const auto open = std::ssize(question) - std::ranges::count(question, kMazeWall);
  MazeSearch search{.perfect = std::ssize(found.seen) == open && sides == 2 * (open - 1),
                    .path = 0,
                    .answer = {}};
  const auto steps = found.steps[field.number_of(goal)];
  if (steps == kUnseen) return search;
  search.path = steps + 1;
  search.answer = question;
  auto here = field.number_of(goal);
  for (auto left = steps - 1; left > 0; --left) {
    auto next = here;
    for (const auto other : field.beside(here)) {
      if (found.steps[other] == left) next = other;
    }
    here = next;
    search.answer[static_cast<size_t>(field.cell_of(here))] = kMazePath;
  }
  return search;
}

std::optional<Puzzle> make_maze(const MazeShape& shape, int64_t least_path, int64_t most_path,
                                uint64_t key) {
  validate(shape);
  require(least_path >= 2 && most_path >= least_path,
          "a maze's path has 2 cells at least, and no more than its longest: {} to {} is no range",
          least_path, most_path);
  KeyedNumbers numbers(key);
  const auto field = drawn_tree(shape, numbers);
  std::vector<size_t> open;
  for (int64_t cell = 0; cell < shape.cells(); ++cell) {
    if (field.is_open(field.number_of(cell))) open.push_back(field.number_of(cell));
  }
  const auto start = drawn_one(open, numbers);
  const MazeDistances from_start(field, start);
  std::vector<size_t> goals;
  for (const auto number : open) {
    const auto path = from_start.steps[number] + 1;
    if (path >= least_path && path <= most_path) goals.push_back(number);
  }
  if (goals.empty()) return std::nullopt;
  Puzzle puzzle{.question = PuzzleGrid(static_cast<size_t>(shape.cells()), kMazeWall),
                .answer = {}};
  const auto at = [&](size_t number) -> uint8_t& {
    return puzzle.question[static_cast<size_t>(field.cell_of(number))];
  };
  for (const auto number : open) at(number) = kMazeOpen;
  at(start) = kMazeStart;
  at(drawn_one(goals, numbers)) = kMazeGoal;
  auto found = solve_maze(shape, puzzle.question);
  // By how it was drawn it is; a maze that is not must never get among the others.
  require(found.perfect && found.path >= least_path && found.path <= most_path,
          "the maze of key {} is not perfect, or its path has {} cells", key, found.path);
  puzzle.answer = std::move(found.answer);
  puzzle.rating = found.path;
  return puzzle;
}

Puzzle in_another_guise(const MazeShape& shape, const Puzzle& puzzle, uint64_t key) {
  validate(shape);
  const auto guise = KeyedNumbers(key).below(shape.rows == shape.columns ? 8 : 4);
  const bool upside_down = guise % 2 == 1, mirrored = guise / 2 % 2 == 1, turned = guise / 4 == 1;
  const auto other = [&](const PuzzleGrid& grid) {
    PuzzleGrid result;
    for (int64_t cell = 0; cell < shape.cells(); ++cell) {
      int64_t row = cell / shape.columns, column = cell % shape.columns;
      if (upside_down) row = shape.rows - 1 - row;
      if (mirrored) column = shape.columns - 1 - column;
      if (turned) std::swap(row, column);
      result.push_back(grid[static_cast<size_t>(row * shape.columns + column)]);
    }
    return result;
  };
  return {
      .question = other(puzzle.question), .answer = other(puzzle.answer), .rating = puzzle.rating};
}

std::optional<std::string> fault_of_answer(const MazeShape& shape, const PuzzleGrid& question,
                                           const PuzzleGrid& answer) {
  auto trodden = question;  // what is not marked is a wall
  for (size_t cell = 0; cell < question.size(); ++cell) {
    const bool marked = question[cell] == kMazeOpen && answer[cell] == kMazePath;
    if (!marked && answer[cell] != question[cell]) {
      return "the answer does not have the question's walls, start and goal";
    }
    if (question[cell] == kMazeOpen && !marked) trodden[cell] = kMazeWall;
  }
  const auto marks = std::ranges::count(answer, kMazePath);
  const auto shortest = solve_maze(shape, question).path;
  if (shortest == 0 || marks + 2 != shortest || solve_maze(shape, trodden).path != shortest) {
    return "the answer is not the shortest way from start to goal";
  }
  return std::nullopt;
}

}  // namespace deq::lab

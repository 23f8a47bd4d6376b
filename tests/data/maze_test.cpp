#include "deq/lab/data/puzzles/maze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "deq/core/error.h"
#include "deq/lab/data/puzzles/maze_text.h"
#include "deq/lab/data/puzzles/puzzle_set.h"
#include "deq/lab/io/atomic_file.h"
#include "io/temporary_folder.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// All ways from start to goal that enter no cell twice, walked one by one: the oracle.
std::vector<PuzzleGrid> all_ways(const MazeShape& shape, const PuzzleGrid& question) {
  std::vector<PuzzleGrid> ways;
  PuzzleGrid trodden = question;
  const std::function<void(int64_t, int64_t)> walk = [&](int64_t row, int64_t column) {
    if (row < 0 || column < 0 || row >= shape.rows || column >= shape.columns) return;
    auto& cell = trodden[static_cast<size_t>(row * shape.columns + column)];
    if (cell == kMazeGoal) ways.push_back(trodden);
    if (cell != kMazeOpen && cell != kMazeStart) return;
    // A start that is left is not entered again.
    const auto before = std::exchange(cell, cell == kMazeOpen ? kMazePath : kMazeWall);
    walk(row - 1, column);
    walk(row + 1, column);
    walk(row, column - 1);
    walk(row, column + 1);
    cell = before;
  };
  const auto start = std::ranges::find(question, kMazeStart) - question.begin();
  walk(start / shape.columns, start % shape.columns);
  for (auto& way : ways) way[static_cast<size_t>(start)] = kMazeStart;
  return ways;
}

int64_t length_of(const PuzzleGrid& way) {
  return std::ranges::count(way, kMazePath) + 2;
}

/// Cells that are no walls, and pairs of them that touch.
std::pair<int64_t, int64_t> cells_and_pairs(const MazeShape& shape, const PuzzleGrid& question) {
  const auto open = [&](int64_t row, int64_t column) {
    return row < shape.rows && column < shape.columns &&
           question[static_cast<size_t>(row * shape.columns + column)] != kMazeWall;
  };
  int64_t cells = 0, pairs = 0;
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t column = 0; column < shape.columns; ++column) {
      if (!open(row, column)) continue;
      cells += 1;
      pairs += (open(row + 1, column) ? 1 : 0) + (open(row, column + 1) ? 1 : 0);
    }
  }
  return {cells, pairs};
}

class MazeTest : public test::SeededWith<MazeShape> {
 protected:
  MazeShape shape_ = GetParam();
  int64_t least_ = (shape_.rows + shape_.columns) / 2, most_ = 2 * least_;

  /// Different ones, as many as that.
  std::vector<Puzzle> drawn(size_t count) const {
    std::vector<Puzzle> puzzles;
    for (uint64_t k = 0; puzzles.size() < count; ++k) {
      auto puzzle = make_maze(shape_, least_, most_, test::seed() + k);
      if (puzzle) puzzles.push_back(std::move(*puzzle));
    }
    return puzzles;
  }
};

TEST_P(MazeTest, HasOneWayBetweenAllItsCellsAndItsAnswerIsIt) {
  for (const auto& puzzle : drawn(30)) {
    const auto [cells, pairs] = cells_and_pairs(shape_, puzzle.question);
    EXPECT_EQ(pairs, cells - 1);
    const auto found = solve_maze(shape_, puzzle.question);
    EXPECT_TRUE(found.perfect);  // one less pairs than cells, and all hang together
    const auto ways = all_ways(shape_, puzzle.question);
    ASSERT_EQ(ways.size(), 1U);
    EXPECT_EQ(ways[0], puzzle.answer);
    EXPECT_EQ(found.answer, puzzle.answer);
    EXPECT_EQ(puzzle.rating, length_of(ways[0]));
    EXPECT_EQ(found.path, puzzle.rating);
    EXPECT_GE(puzzle.rating, least_);
    EXPECT_LE(puzzle.rating, most_);
  }
}

TEST_P(MazeTest, NoWallCanGoWithoutASecondWay) {
  for (const auto& puzzle : drawn(10)) {
    for (size_t cell = 0; cell < puzzle.question.size(); ++cell) {
      if (puzzle.question[cell] != kMazeWall) continue;
      auto other = puzzle.question;
      other[cell] = kMazeOpen;
      EXPECT_FALSE(solve_maze(shape_, other).perfect) << maze_line(shape_, other);
    }
  }
}

TEST_P(MazeTest, AllItsGuisesHaveTheirPaths) {
  const auto puzzle = drawn(1)[0];
  std::set<PuzzleGrid> seen;
  for (uint64_t k = 0; k < 100; ++k) {
    const auto other = in_another_guise(shape_, puzzle, test::seed() + k);
    EXPECT_EQ(solve_maze(shape_, other.question).answer, other.answer);
    EXPECT_EQ(other.rating, puzzle.rating);
    seen.insert(other.question);
  }
  EXPECT_TRUE(seen.contains(puzzle.question));
  // Of a drawn maze no two are the same: it has but one start and one goal.
  EXPECT_EQ(seen.size(), shape_.rows == shape_.columns ? 8U : 4U);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MazeTest,
                         ::testing::Values(MazeShape{5, 5}, MazeShape{6, 6}, MazeShape{7, 4},
                                           MazeShape{5, 12}, MazeShape{13, 13}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.rows) + "x" +
                                  std::to_string(shape.param.columns);
                         });

TEST(Maze, FindsTheShortestWayAmongRandomWalls) {
  // Not perfect: several ways, or none.
  const MazeShape shape{4, 5};
  auto generator = test::generator();
  int64_t with_several = 0, without = 0;
  for (int k = 0; k < 200; ++k) {
    PuzzleGrid question;
    const auto walls = torch::rand({shape.cells()}, generator);
    for (int64_t i = 0; i < shape.cells(); ++i) {
      question.push_back(walls[i].item<double>() < 0.35 ? kMazeWall : kMazeOpen);
    }
    question.front() = kMazeStart;
    question.back() = kMazeGoal;
    const auto ways = all_ways(shape, question);
    const auto found = solve_maze(shape, question);
    int64_t shortest = 0;
    for (const auto& way : ways) {
      if (shortest == 0 || length_of(way) < shortest) shortest = length_of(way);
    }
    EXPECT_EQ(found.path, shortest) << maze_line(shape, question) << ", seed " << test::seed();
    EXPECT_EQ(std::ranges::count(ways, found.answer), ways.empty() ? 0 : 1);
    for (const auto& way : ways) {
      EXPECT_EQ(fault_of_answer(shape, question, way).has_value(), length_of(way) != shortest);
    }
    with_several += ways.size() > 1 ? 1 : 0;
    without += ways.empty() ? 1 : 0;
  }
  EXPECT_GT(with_several, 10);
  EXPECT_GT(without, 10);
}

TEST(Maze, AsItIsWrittenAndDrawn) {
  const MazeShape square{3, 3}, flat{2, 4};
  const auto grid = maze_from_line(square, "S #o#.G# ");
  EXPECT_EQ(grid, (PuzzleGrid{2, 1, 0, 4, 0, 1, 3, 0, 1}));
  EXPECT_EQ(maze_line(square, grid), "S #o# G# ");
  EXPECT_EQ(draw_maze(square, grid), "S #\no# \nG# \n");
  const auto other = maze_from_line(flat, "S  #/## G");
  EXPECT_EQ(maze_line(flat, other), "S  #/## G");
  EXPECT_EQ(maze_shape("S  #/## G"), flat);
  EXPECT_EQ(maze_shape("S #o# G# "), square);
  for (const auto* text : {"S  #\n## G\n", "S..#\r\n##.G\r\n", "S  ### G", "S  #/##.G\n"}) {
    EXPECT_EQ(parse_maze(flat, text), other);
  }
}

TEST(Maze, WhatIsNone) {
  const MazeShape shape{2, 3};
  const auto refuse = [&](const std::string& text, const std::string& why) {
    EXPECT_THAT([&] { parse_maze(shape, text); }, ThrowsMessage<Error>(HasSubstr(why))) << text;
  };
  refuse("S #\n", "3 cells where 6 are expected");
  refuse("S #\n # G\n", "row 2 of the maze has 4 cells, where 3 are expected");
  refuse("S #\n #G\n#", "a maze of 3 rows, where 2 are expected");
  refuse("S #\n#xG\n", "it has other signs, too");
  refuse("S#.#oG", "a maze's question has walls, open cells, a start and a goal, nothing else");
  refuse("S#.#.S", "a maze has one start, not 2");
  refuse("S#.#..", "a maze has one goal, not 0");
  EXPECT_THAT([] { maze_shape("S#G"); },
              ThrowsMessage<Error>("a maze of 3 cells is not square, and has no slashes between "
                                   "its rows"));
  EXPECT_THAT(
      [] {
        make_maze({1, 7}, 2, 3, 0);
      },
      ThrowsMessage<Error>("a maze has 2 to 100 rows and columns, not 1 × 7"));
  EXPECT_THAT(
      [] {
        make_maze({7, 7}, 9, 8, 0);
      },
      ThrowsMessage<Error>(EndsWith("9 to 8 is no range")));
}

TEST(MazeSet, DoesNotDependOnThreadsAndHasNothingTwice) {
  // So small that many are drawn twice.
  const PuzzleSetOptions options{
      .wanted = MazeWanted{{3, 3}, 3, 5}, .count = 200, .seed = test::seed(), .threads = 1};
  auto more = options;
  more.threads = 3;
  const auto one = make_puzzles(options);
  EXPECT_EQ(one.shape, PuzzleShape(MazeShape{3, 3}));
  EXPECT_EQ(one.puzzles, make_puzzles(more).puzzles);
  std::set<PuzzleGrid> questions;
  for (const auto& puzzle : one.puzzles) questions.insert(puzzle.question);
  EXPECT_EQ(questions.size(), one.puzzles.size());
  more.seed += 1;
  EXPECT_NE(one.puzzles, make_puzzles(more).puzzles);
}

TEST(MazeSet, ThePublishedSize) {
  for (const auto& puzzle :
       make_puzzles({.wanted = MazeWanted{}, .count = 20, .seed = test::seed()}).puzzles) {
    EXPECT_GE(puzzle.rating, 100);
    EXPECT_LE(puzzle.rating, 140);
    EXPECT_EQ(length_of(puzzle.answer), puzzle.rating);
  }
}

TEST(MazeSet, SaysThatThereIsNone) {
  EXPECT_THAT(
      [] {
        make_puzzles({.wanted = MazeWanted{{3, 3}, 9, 9}, .count = 1});
      },
      ThrowsMessage<Error>(
          "after 100000 tries there is no other maze of 3 × 3 with a path of 9 to 9 cells"));
}

TEST(PuzzleShapes, AreKeptAsMarks) {
  for (const PuzzleShape& shape :
       {PuzzleShape(MazeShape{30, 20}), PuzzleShape(SudokuShape{2, 3})}) {
    EXPECT_EQ(shape_of_mark(mark_of(shape)), shape);
  }
  EXPECT_EQ(mark_of(MazeShape{30, 20}), "maze 30x20");
  for (const auto* none : {"", "maze", "maze 3", "maze 3x", "maze 3x3x3", "cube 3x3"}) {
    EXPECT_FALSE(shape_of_mark(none)) << none;
  }
  EXPECT_THAT([] { shape_of_mark("sudoku 9x9"); }, ThrowsMessage<Error>(EndsWith("not 9 × 9")));
}

class MazeFile : public ::testing::Test {
 protected:
  void refuse(const std::string& lines, const std::string& why) const {
    write_file_atomically(file_, "source,question,answer,rating\n" + lines + "\n");
    EXPECT_THAT([this] { read_puzzles(file_); }, ThrowsMessage<Error>(EndsWith(why))) << lines;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "puzzles.csv";
};

TEST_F(MazeFile, ReadsWhatItWrote) {
  for (const auto& shape : {MazeShape{9, 9}, MazeShape{6, 11}}) {
    const auto made =
        make_puzzles({.wanted = MazeWanted{shape, 6, 30}, .count = 10, .seed = test::seed()});
    write_puzzles(file_, made);
    const auto set = read_puzzles(file_);
    EXPECT_EQ(set.shape, made.shape);
    EXPECT_EQ(set.puzzles, made.puzzles);
  }
}

TEST_F(MazeFile, SaysWhatIsWrongAndWhere) {
  refuse("x,S # # G# ,So#,1", ":2: 3 cells where 9 are expected");
  refuse("x,S # # G,S#,1",
         ":2: a maze of 7 cells is not square, and has no slashes between its rows");
  refuse("x,S # # #G ,S # # #G ,1", ":2: the answer is not the shortest way from start to goal");
  refuse("x,S  # #  G,SooooooG#,1",
         ":2: the answer does not have the question's walls, start and goal");
  refuse("x,S  # #  G,Soo#o#  G,1", ":2: the answer is not the shortest way from start to goal");
  refuse("x,S  # ## G,Soo#o##oG,1", ":2: the answer is not the shortest way from start to goal");
  refuse("x,S  #o#  G,Soo#o#  G,1",
         ":2: a maze's question has walls, open cells, a start and a goal, nothing else");
  refuse("x,S  # #   ,Soo#o#   ,1", ":2: a maze has one goal, not 0");
  refuse("x,S  #x#  G,Soo#o#  G,1", "it has other signs, too");
  refuse("x,S  ## ##G,Soo##o##G,many", ":2: the rating is no whole number");
  refuse("x,S/G,S/G,2", ":2: a maze has 2 to 100 rows and columns, not 2 × 1");
  refuse("x,S  /#G,S  /#G,2", ":2: row 2 of the maze has 2 cells, where 3 are expected");
  refuse("x,S  ## ##G,Soo##o##G,5\nx,1..............1,1234341221434321,0",
         ":3: 16 cells where 9 are expected");
  refuse("x,1..............1,1234341221434321,0\nx,S  ## ##G,Soo##o##G,5",
         ":3: 9 cells where 16 are expected");
}

}  // namespace
}  // namespace deq::lab

#include "deq/lab/data/puzzles/puzzle_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/plain_sudoku.h"
#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "io/temporary_folder.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

PuzzleGrid grid_of(const std::string& text) {
  PuzzleGrid grid;
  for (const char letter : text)
    grid.push_back(letter == '.' ? uint8_t{0} : static_cast<uint8_t>(letter - '0'));
  return grid;
}

/// Counted cell by cell, without any inference: the oracle.
int64_t count_plainly(const SudokuShape& shape, PuzzleGrid& grid, size_t cell = 0) {
  const auto side = static_cast<size_t>(shape.side());
  while (cell < grid.size() && grid[cell] != 0) ++cell;
  if (cell == grid.size()) return 1;
  int64_t count = 0;
  const size_t row = cell / side, column = cell % side;
  const auto high = static_cast<size_t>(shape.box_rows),
             wide = static_cast<size_t>(shape.box_columns);
  for (uint8_t digit = 1; digit <= side; ++digit) {
    bool fits = true;
    for (size_t other = 0; other < grid.size() && fits; ++other) {
      const size_t r = other / side, c = other % side;
      const bool seen =
          r == row || c == column || (r / high == row / high && c / wide == column / wide);
      fits = other == cell || !seen || grid[other] != digit;
    }
    if (!fits) continue;
    grid[cell] = digit;
    count += count_plainly(shape, grid, cell + 1);
    grid[cell] = 0;
  }
  return count;
}

class SudokuTest : public test::SeededWith<SudokuShape> {
 protected:
  SudokuShape shape_ = GetParam();
  Puzzle draw(uint64_t index) const { return make_sudoku(shape_, test::seed() + index); }
};

TEST_P(SudokuTest, APuzzleHasOneAnswerAndNoDigitTooMany) {
  for (uint64_t k = 0; k < 20; ++k) {
    const auto puzzle = draw(k);
    const auto found = solve_sudoku(shape_, puzzle.question);
    EXPECT_EQ(found.solutions, 1);
    EXPECT_EQ(found.answer, puzzle.answer);
    EXPECT_EQ(found.vain, puzzle.rating);
    EXPECT_EQ(solve_sudoku(shape_, puzzle.answer).solutions, 1);
    for (size_t cell = 0; cell < puzzle.question.size(); ++cell) {
      if (puzzle.question[cell] == 0) continue;
      auto less = puzzle.question;
      less[cell] = 0;
      EXPECT_EQ(solve_sudoku(shape_, less).solutions, 2) << "without the digit in cell " << cell;
    }
  }
}

TEST_P(SudokuTest, IsWhatAPlainMakerMakes) {
  const test::PlainSudoku plain(shape_);
  for (uint64_t k = 0; k < 10; ++k) {
    EXPECT_EQ(draw(k), plain.make(test::seed() + k)) << "key " << test::seed() + k;
  }
}

TEST_P(SudokuTest, AnotherGuiseHasOneAnswerToo) {
  const auto puzzle = draw(0);
  std::set<PuzzleGrid> seen;
  for (uint64_t k = 0; k < 50; ++k) {
    const auto other = in_another_guise(shape_, puzzle, test::seed() + k);
    const auto found = solve_sudoku(shape_, other.question);
    EXPECT_EQ(found.solutions, 1);
    EXPECT_EQ(found.answer, other.answer);
    EXPECT_EQ(std::ranges::count(other.question, 0), std::ranges::count(puzzle.question, 0));
    seen.insert(other.question);
  }
  EXPECT_GT(seen.size(), 25U);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SudokuTest,
                         ::testing::Values(SudokuShape{2, 2}, SudokuShape{2, 3}, SudokuShape{3, 2},
                                           SudokuShape{2, 4}, SudokuShape{3, 3}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.box_rows) + "x" +
                                  std::to_string(shape.param.box_columns);
                         });

TEST(Sudoku, CountsWhatAPlainSearchCounts) {
  // All grids of 4 × 4: a known number.
  const SudokuShape small{2, 2};
  EXPECT_EQ(solve_sudoku(small, PuzzleGrid(16), 1000).solutions, 288);
  for (const auto& shape : {small, SudokuShape{2, 3}}) {
    for (uint64_t k = 0; k < 20; ++k) {
      auto question = make_sudoku(shape, k).question;
      for (int removed = 0; auto& digit : question) {
        if (digit != 0 && removed++ < 2) digit = 0;
      }
      auto work = question;
      EXPECT_EQ(solve_sudoku(shape, question, 1 << 20).solutions, count_plainly(shape, work));
    }
  }
}

TEST(Sudoku, APublishedOne) {
  // Printed in many introductions; logic alone solves it, so nothing is tried in vain.
  const auto found = solve_sudoku(
      {},
      grid_of("53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"));
  EXPECT_EQ(found.solutions, 1);
  EXPECT_EQ(found.vain, 0);
  EXPECT_EQ(found.answer,
            grid_of("53467891267219534819834256785976142342685379171392485696153728428741"
                    "9635345286179"));
}

TEST(Sudoku, AKeysPuzzleStaysWhatItWas) {
  const auto puzzle = make_sudoku({}, 0);
  EXPECT_EQ(
      puzzle.question,
      grid_of("923....6.......5..65...2..3..859..7..6...4...3.......85..4...2......3...7..6....5"));
  EXPECT_EQ(puzzle.rating, 4);
}

TEST(Sudoku, WhatIsNone) {
  auto twice = PuzzleGrid(81);
  twice[0] = twice[1] = 5;
  EXPECT_EQ(solve_sudoku({}, twice).solutions, 0);
  EXPECT_THAT([] { solve_sudoku({}, PuzzleGrid(80)); },
              ThrowsMessage<Error>("a Sudoku of 9 × 9 has 81 cells, not 80"));
  EXPECT_THAT(
      [] {
        solve_sudoku({2, 2}, PuzzleGrid(16, 5));
      },
      ThrowsMessage<Error>("a Sudoku of 4 × 4 has no digit 5"));
  EXPECT_THAT([] { make_sudoku({4, 4}, 0); }, ThrowsMessage<Error>(HasSubstr("not 4 × 4")));
}

TEST(SudokuSet, DoesNotDependOnThreadsAndHasNothingTwice) {
  // So small that many are drawn twice.
  const PuzzleSetOptions options{
      .wanted = SudokuWanted{.shape = {2, 2}}, .count = 3000, .seed = test::seed(), .threads = 1};
  auto more = options;
  more.threads = 3;
  const auto one = make_puzzles(options).puzzles;
  EXPECT_EQ(one, make_puzzles(more).puzzles);
  std::set<PuzzleGrid> questions;
  for (const auto& puzzle : one) questions.insert(puzzle.question);
  EXPECT_EQ(questions.size(), one.size());
  more.seed += 1;
  EXPECT_NE(one, make_puzzles(more).puzzles);
}

TEST(SudokuSet, FewerAreTheFirstOfMore) {
  const auto made = [](int64_t count) {
    return make_puzzles(
               {.wanted = SudokuWanted{.least_rating = 1}, .count = count, .seed = test::seed()})
        .puzzles;
  };
  const auto all = made(70);
  for (const int64_t count : {1, 15, 17, 33}) {
    EXPECT_EQ(made(count), std::vector(all.begin(), all.begin() + count));
  }
}

TEST(SudokuSet, HardOnesOnly) {
  const auto set =
      make_puzzles({.wanted = SudokuWanted{.least_rating = 10}, .count = 20, .seed = test::seed()});
  for (const auto& puzzle : set.puzzles) EXPECT_GE(puzzle.rating, 10);
}

class SudokuFile : public ::testing::Test {
 protected:
  void write(const std::string& text) const { write_file_atomically(file_, text); }
  void refuse(const std::string& line, const std::string& why) const {
    write("source,question,answer,rating\n" + line + "\n");
    EXPECT_THAT([this] { read_puzzles(file_); }, ThrowsMessage<Error>(EndsWith(why)));
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "puzzles.csv";
};

TEST_F(SudokuFile, ReadsWhatItWrote) {
  for (const auto& shape : {SudokuShape{2, 3}, SudokuShape{3, 3}}) {
    const auto made =
        make_puzzles({.wanted = SudokuWanted{.shape = shape}, .count = 10, .seed = test::seed()});
    write_puzzles(file_, made);
    const auto set = read_puzzles(file_);
    EXPECT_EQ(set.shape, PuzzleShape(shape));
    EXPECT_EQ(set.puzzles, made.puzzles);
  }
}

TEST_F(SudokuFile, TakesZerosCarriageReturnsAndNoRating) {
  write("source,question,answer\r\nx,1000000003000004,1234341221434321\r\n");
  EXPECT_THAT([this] { read_puzzles(file_); }, ThrowsMessage<Error>(EndsWith("question's digits")));
  write("source,question,answer\r\nx,1000000000000001,1234341221434321\r\n");
  const auto set = read_puzzles(file_);
  ASSERT_EQ(set.puzzles.size(), 1U);
  EXPECT_EQ(set.puzzles[0].question, grid_of("1..............1"));
  EXPECT_EQ(set.puzzles[0].rating, 0);
}

TEST_F(SudokuFile, SaysWhatIsWrongAndWhere) {
  refuse("x,12,12,0", ":2: a question of 2 cells, where 16, 36, 64 or 81 are expected");
  refuse("x,1..............1,1234,0", ":2: 4 cells where 16 are expected");
  refuse("x,1..............7,1234341221434321,0", ":2: '7' is neither a digit up to 4 nor a blank");
  refuse("x,1..............1,1234341221434324,0", ":2: the answer is no filled grid");
  refuse("x,1..............1,123434122143432.,0", ":2: the answer is no filled grid");
  refuse("x,1..............1,1234341221434321,many", ":2: the rating is no whole number");
  write("question,answer\n");
  EXPECT_THAT([this] { read_puzzles(file_); },
              ThrowsMessage<Error>(HasSubstr(":1: the first line")));
  write("source,question,answer,rating\n");
  EXPECT_THAT([this] { read_puzzles(file_); }, ThrowsMessage<Error>(EndsWith("holds no puzzles")));
}

}  // namespace
}  // namespace deq::lab

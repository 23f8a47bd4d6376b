#include "deq/lab/data/puzzles/sudoku_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/lab/data/puzzles/puzzle_dataset.h"
#include "deq/lab/data/puzzles/puzzle_set.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(SudokuText, ReadsWhatItWritesAndWhatItDraws) {
  for (const auto& shape : {SudokuShape{2, 2}, {2, 3}, {2, 4}, {3, 3}}) {
    const auto grid = make_sudoku(shape, 7).question;
    EXPECT_EQ(parse_sudoku(sudoku_line(grid)), grid);
    EXPECT_EQ(parse_sudoku(draw_sudoku(shape, grid)), grid);
    EXPECT_EQ(sudoku_shape(grid.size()), shape);
  }
  EXPECT_EQ(draw_sudoku({2, 2}, parse_sudoku("1...\n..3.\n....\n.2.4\n")),
            "1 .|. .\n. .|3 .\n---+---\n. .|. .\n. 2|. 4\n");
  EXPECT_EQ(parse_sudoku("0000000000000000"), PuzzleGrid(16, 0));
}

TEST(SudokuText, SaysWhatIsNoGrid) {
  EXPECT_THAT([] { parse_sudoku("12"); },
              ThrowsMessage<Error>(HasSubstr("a puzzle of 2 cells, where 16, 36, 64 or 81")));
  EXPECT_THAT([] { parse_sudoku("x"); }, ThrowsMessage<Error>(HasSubstr("other signs")));
  EXPECT_THAT([] { parse_sudoku("5..............."); },
              ThrowsMessage<Error>(HasSubstr("of 4 × 4 cells has the digit 5")));
}

class SudokuDatasetTest : public test::Seeded {};

TEST_F(SudokuDatasetTest, AugmentedPuzzlesAreOthersWithTheirAnswers) {
  const auto set = make_puzzles({.wanted = SudokuWanted{}, .count = 3});
  const PuzzleDataset plain(set, false), augmented(set, true);
  EXPECT_EQ(plain.size(), 3);
  EXPECT_TRUE(plain.get(1, 5)[0].equal(tokens_of(set.puzzles[1].question)));
  EXPECT_TRUE(plain.get(1, 5)[1].equal(tokens_of(set.puzzles[1].answer)));
  EXPECT_TRUE(augmented.get(1, 5)[0].equal(augmented.get(1, 5)[0]));
  EXPECT_FALSE(augmented.get(1, 5)[0].equal(augmented.get(1, 6)[0]));
  for (uint64_t key = 0; key < 20; ++key) {
    const auto sample = augmented.get(2, key);
    const auto& question = sample[0];
    const auto& answer = sample[1];
    EXPECT_TRUE(question.eq(0).logical_or(question.eq(answer)).all().item<bool>());
    EXPECT_EQ(question.ne(0).sum().item<int64_t>(),
              tokens_of(set.puzzles[2].question).ne(0).sum().item<int64_t>());
    // Every row, column and box of an answer has each digit once: its sum of squares tells.
    const auto squares = answer.view({9, 9}).square();
    EXPECT_TRUE(squares.sum(0).eq(285).all().item<bool>());
    EXPECT_TRUE(squares.sum(1).eq(285).all().item<bool>());
    EXPECT_TRUE(squares.view({3, 3, 3, 3}).sum({1, 3}).eq(285).all().item<bool>());
  }
}

}  // namespace
}  // namespace deq::lab

#include "deq/lab/tasks/reasoning.h"
#include "deq/lab/settings/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>

#include "deq/core/error.h"
#include "deq/lab/data/puzzles/puzzle_set.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/run_folder.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/settings/files.h"
#include "deq/lab/train/trainer.h"
#include "deq/lab/trained/puzzle_solver.h"
#include "io/temporary_folder.h"
#include "lab/runs/model_state.h"
#include "lab/tasks/puzzle_loss.h"
#include "lab/tasks/puzzle_slots.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using test::f64;

class PuzzleLossTest : public test::Seeded {};

TEST_F(PuzzleLossTest, StablemaxIsItsFormula) {
  const auto logits = torch::tensor({{{-1.0, 0.0, 1.0}}}, torch::kFloat64);
  // s = 1/2, 1, 2
  const auto loss = cell_losses(logits, torch::tensor({{0}}), CellLoss::Stablemax);
  EXPECT_NEAR(loss.item<double>(), std::log(7.0), 1e-14);
  EXPECT_NEAR(cell_losses(logits, torch::tensor({{2}}), CellLoss::Stablemax).item<double>(),
              std::log(1.75), 1e-14);
  EXPECT_NEAR(cell_losses(logits, torch::tensor({{1}}), CellLoss::Softmax).item<double>(),
              std::log(std::exp(-1) + 1 + std::exp(1)), 1e-14);
}

TEST_F(PuzzleLossTest, HasAFiniteGradientEverywhere) {
  auto logits = torch::tensor({{{-1e6, 1.0, 0.0}, {1e6, 1.0, -3.0}}}, f64().requires_grad(true));
  for (const auto kind : {CellLoss::Stablemax, CellLoss::Softmax}) {
    for (const int64_t answer : {0, 1, 2}) {
      const auto loss = cell_losses(logits, torch::full({1, 2}, answer, torch::kInt64), kind).sum();
      EXPECT_TRUE(torch::autograd::grad({loss}, {logits})[0].isfinite().all().item<bool>());
    }
  }
}

/// Rows whose questions are numbers; a state is its question, and stays what it is.
class PuzzleSlotsTest : public test::Seeded {
 protected:
  static Batch batch(int64_t first, int64_t rows = 2) {
    const auto questions = torch::arange(first, first + rows).unsqueeze(1);
    return {.tensors = {questions, questions + 100}};
  }
  static State start_of(const torch::Tensor& questions) {
    const auto state = questions.to(torch::kFloat32);
    return {state, -state};
  }
  /// The questions of the pass, whose rows settle where `settled` is above 0.
  static std::vector<int64_t> pass(PuzzleSlots& slots, int64_t first,
                                   const std::vector<float>& settled, float loss = 1) {
    const auto& rows = slots.next(batch(first, static_cast<int64_t>(settled.size())), start_of);
    EXPECT_TRUE(rows.answers.equal(rows.questions + 100));
    EXPECT_TRUE(rows.state[0].equal(rows.questions.to(torch::kFloat32)));
    EXPECT_TRUE(rows.state[1].equal(-rows.state[0]));
    const auto questions = rows.questions.flatten().contiguous();
    const std::vector<int64_t> seen(questions.const_data_ptr<int64_t>(),
                                    questions.const_data_ptr<int64_t>() + questions.numel());
    const State after = rows.state;
    slots.remember(after, torch::tensor(settled), torch::tensor(loss));
    return seen;
  }
  using Numbers = std::vector<int64_t>;
};

TEST_F(PuzzleSlotsTest, APuzzleStaysUntilItSettlesOrItsTimeIsOver) {
  PuzzleSlots slots({.batch_size = 2}, /*segments=*/3, /*exploration=*/0);
  EXPECT_EQ(pass(slots, 10, {-1, 1}), (Numbers{10, 11}));
  EXPECT_EQ(pass(slots, 20, {-1, -1}), (Numbers{10, 21}));  // the second had settled
  EXPECT_EQ(pass(slots, 30, {-1, -1}), (Numbers{10, 21}));
  EXPECT_EQ(pass(slots, 40, {-1, -1}), (Numbers{40, 21}));  // three segments are enough
  EXPECT_EQ(pass(slots, 50, {-1, -1}), (Numbers{40, 51}));
}

TEST_F(PuzzleSlotsTest, ExplorationKeepsASettledPuzzleForLonger) {
  PuzzleSlots slots({.batch_size = 64}, /*segments=*/4, /*exploration=*/1);
  const std::vector<float> settled(64, 1);
  Numbers before = pass(slots, 0, settled);
  EXPECT_EQ(pass(slots, 100, settled), before);  // two segments at least
  int64_t stayed = 0;
  for (const auto question : pass(slots, 200, settled)) stayed += question < 100 ? 1 : 0;
  EXPECT_GT(stayed, 20);  // 2, 3 and 4 are equally likely
  EXPECT_LT(stayed, 60);
}

TEST_F(PuzzleSlotsTest, APassWithoutAFiniteLossBeginsAnew) {
  PuzzleSlots slots({.batch_size = 2}, 3, 0);
  pass(slots, 10, {-1, -1}, std::nanf(""));
  EXPECT_EQ(pass(slots, 20, {-1, -1}), (Numbers{20, 21}));
}

TEST_F(PuzzleSlotsTest, GoesOnWithOtherParts) {
  const auto world = World::alone();
  PuzzleSlots whole({.batch_size = 4}, 3, 0);
  pass(whole, 10, {-1, 1, -1, 1});
  PuzzleSlots halves({.batch_size = 4, .parts = 2}, 3, 0);
  halves.restore(1, whole.gather(*world), torch::kCPU);
  EXPECT_EQ(pass(halves, 20, {-1, -1}), (Numbers{10, 21}));
  EXPECT_EQ(pass(halves, 22, {-1, -1}), (Numbers{12, 23}));
  // And back.
  PuzzleSlots again({.batch_size = 4}, 3, 0);
  again.restore(2, halves.gather(*world), torch::kCPU);
  EXPECT_EQ(pass(again, 30, {-1, -1, -1, -1}), (Numbers{10, 21, 12, 23}));
}

class ReasoningTest : public test::Seeded {
 protected:
  ReasoningTest() {
    const auto [shape, puzzles] =
        make_puzzles({.wanted = SudokuWanted{.shape = {.box_rows = 2, .box_columns = 2}},
                      .count = 120,
                      .seed = 1});
    write_puzzles(folder_ / "train.csv", {shape, {puzzles.begin(), puzzles.begin() + 80}});
    write_puzzles(folder_ / "test.csv", {shape, {puzzles.begin() + 80, puzzles.end()}});
  }

  ReasoningConfig config(const std::string& more = "") const {
    return parse_config<ReasoningConfig>(
        "experiment = \"reasoning\"\n[data]\npath = \"" + folder_.path().string() +
            "\"\n[model]\nwidth = 16\ninner_multiple = 16\ninner_steps = 2\nstart = \"random\"\n" +
            "[solver.forward]\nmax_evals = 6\n[train]\nbatch_size = 16\nsteps = 60\n" +
            "lr = 3e-3\neval_every_steps = 60\n[train.lr_schedule]\nwarmup_steps = 5\n" + more,
        "test");
  }

  test::TemporaryFolder folder_;
};

TEST_F(ReasoningTest, LearnsAndKeepsItsPuzzlesInCheckpoints) {
  const auto how = config();
  const auto last_loss = [&](const std::filesystem::path& run, int64_t stop_at) {
    double loss = 0;
    int64_t steps = 0;
    std::filesystem::create_directories(run);
    ReasoningTask task(how);
    Trainer trainer(task, how, to_toml(how), run, World::alone(),
                    {.on_metrics = {},
                     .progress =
                         [&](const StepNews& news) {
                           steps = news.step;
                           if (news.phase == TrainingPhase::Training) loss = news.loss;
                         },
                     .warn = {},
                     .interrupted = [&] { return steps + 1 >= stop_at ? 2 : 0; }});
    trainer.resume();
    trainer.run();
    return loss;
  };
  const double first = last_loss(folder_ / "short", 1);
  const double whole = last_loss(folder_ / "whole", 1'000);
  EXPECT_LT(whole, 0.85 * first);
  EXPECT_NE(last_loss(folder_ / "parts", 23), whole);
  EXPECT_EQ(last_loss(folder_ / "parts", 1'000), whole);
}

TEST_F(ReasoningTest, OfSeveralStartsTheMostSettledCounts) {
  auto how = config();
  const auto measure = [&how] {
    ReasoningTask task(how);
    task.model().eval();
    const torch::NoGradGuard no_grad;
    return task.evaluate(evaluation_options(how), *World::alone());
  };
  const auto one = measure();
  how.reasoning.breadth = 4;
  const auto several = measure();
  EXPECT_EQ(number(several, "nfe_forward"), 6);
  EXPECT_TRUE(std::isfinite(number(several, "exact_first")));
  EXPECT_NE(number(several, "cells"), number(one, "cells"));
  how.model.start = models::ReasonerStart::Fixed;
  EXPECT_THAT([&] { measure(); }, ::testing::ThrowsMessage<Error>(::testing::StrEq(
                                      "reasoning.breadth = 4 needs model.start = \"random\"")));
}

TEST_F(ReasoningTest, ACheckpointSaysWhatThePuzzlesAre) {
  const auto how = config();
  ReasoningTask task(how);
  EXPECT_EQ(task.sample_form(), "sudoku 2x2");
  create_run_folder(folder_ / "run");
  write_file_atomically(config_file(folder_ / "run"), to_toml(how));
  const auto solver_of = [&](const std::string& form) {
    Checkpoints(checkpoint_folder(folder_ / "run"), 1)
        .save(0, {.tensors = model_tensors(task.model()),
                  .metadata = checkpoint_metadata(to_toml(how), {}, form)});
    return PuzzleSolver(folder_ / "run");
  };
  auto newer = solver_of("sudoku 2x2");
  auto older = solver_of("");  // from the time when there were no others
  EXPECT_EQ(newer.shape(), PuzzleShape(SudokuShape{2, 2}));
  EXPECT_EQ(older.shape(), newer.shape());
  const auto question = make_sudoku({2, 2}, 1).question;
  EXPECT_EQ(older.solve(question).grid, newer.solve(question).grid);
  EXPECT_EQ(solver_of("maze 4x4").shape(), PuzzleShape(MazeShape{4, 4}));
  EXPECT_THAT([&] { solver_of("maze 1x16"); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("not 1 × 16")));
}

TEST_F(ReasoningTest, SaysWhatIsMissing) {
  auto how = config();
  how.data.path = folder_ / "nowhere";
  EXPECT_THAT([&] { ReasoningTask task(how); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("there is no ")));
  const SudokuWanted other{.shape = {.box_rows = 2, .box_columns = 3}};
  write_puzzles(folder_ / "test.csv", make_puzzles({.wanted = other, .count = 3}));
  EXPECT_THAT([&] { ReasoningTask task(config()); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("are of different shapes")));
}

}  // namespace
}  // namespace deq::lab

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <limits>

#include "deq/core/error.h"
#include "deq/lab/settings/files.h"
#include "io/temporary_folder.h"
#include "train/training_run.h"

namespace deq::lab {
namespace {

using test::short_config;
using test::TrainingRun;

class FailureTest : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

const double kNan = std::numeric_limits<double>::quiet_NaN();

bool all_finite(TrainingRun& run) {
  for (const auto& [name, tensor] : run.weights()) {
    if (!tensor.isfinite().all().item<bool>()) return false;
  }
  return true;
}

TEST_F(FailureTest, AStepWithoutAFiniteLossIsSkippedAndCounted) {
  for (const double value : {kNan, std::numeric_limits<double>::infinity()}) {
    const auto folder = folder_.path() / std::to_string(value);
    std::filesystem::create_directories(folder);
    TrainingRun run(short_config(), folder, [value](int64_t pass, TaskPass& made) {
      if (pass == 5 || pass == 7) made.loss = made.loss * value;
    });
    EXPECT_EQ(run.trainer.run(), TrainingEnd::Finished);
    EXPECT_TRUE(all_finite(run));
    EXPECT_EQ(number(run.of("train").back(), "skipped_steps"), 2);
    EXPECT_EQ(number(run.of("train").back(), "rollbacks"), 0);
    EXPECT_EQ(run.task.passes(), 32);
  }
}

// The loss is a number, its gradient is not: √0.
TEST_F(FailureTest, AStepWithoutAFiniteGradientIsSkipped) {
  TrainingRun run(short_config(), folder_.path(), [](int64_t pass, TaskPass& made) {
    if (pass == 9) made.loss = made.loss + (made.loss - made.loss.detach()).sqrt();
  });
  EXPECT_EQ(run.trainer.run(), TrainingEnd::Finished);
  EXPECT_TRUE(all_finite(run));
  EXPECT_EQ(number(run.of("train").back(), "skipped_steps"), 1);
}

class BadDataTask : public SyntheticTask {
 public:
  using SyntheticTask::SyntheticTask;
  TaskPass forward(const Batch& batch, const EquilibriumPlan& how) override {
    auto bad = batch;
    if (passes_++ == 3) {
      bad.tensors[0] = bad.tensors[0].clone();
      bad.tensors[0][2] = kNan;
    }
    return SyntheticTask::forward(bad, how);
  }

 private:
  int64_t passes_ = 0;
};

TEST_F(FailureTest, ASampleThatIsNotANumberCostsOneStep) {
  const auto config = short_config();
  BadDataTask task(config);
  Metrics last;
  Trainer trainer(task, config, to_toml(config), folder_.path(), World::alone(),
                  {.on_metrics = [&last](const Metrics& line) {
                    if (text(line, "split") == "train") last = line;
                  }});
  EXPECT_EQ(trainer.run(), TrainingEnd::Finished);
  EXPECT_EQ(number(last, "skipped_steps"), 1);
}

TEST_F(FailureTest, ManyInARowGoBackToTheLastCheckpointWithASmallerStep) {
  auto config = short_config();
  config.train.checkpoints.every_steps = 8;
  config.train.failure = {.skipped_in_a_row = 3, .rollbacks = 2, .lr_factor = 0.25};
  config.train.lr_schedule.shape = ConstantRate{};
  TrainingRun run(config, folder_.path(), [](int64_t pass, TaskPass& made) {
    if (pass >= 12 && pass < 15) made.loss = made.loss * kNan;
  });
  EXPECT_EQ(run.trainer.run(), TrainingEnd::Finished);
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_NE(run.warnings[0].find("going back to step 8"), std::string::npos) << run.warnings[0];
  EXPECT_EQ(run.task.passes(), 15 + (32 - 8));
  const auto last = run.of("train").back();
  EXPECT_EQ(number(last, "rollbacks"), 1);
  EXPECT_EQ(number(last, "skipped_steps"), 3);
  EXPECT_DOUBLE_EQ(number(last, "lr"), 0.25e-2);
}

TEST_F(FailureTest, StopsWithAdviceWhenGoingBackDoesNotHelp) {
  auto config = short_config();
  config.train.failure = {.skipped_in_a_row = 2, .rollbacks = 2};
  TrainingRun run(config, folder_.path(), [](int64_t pass, TaskPass& made) {
    if (pass >= 4) made.loss = made.loss * kNan;
  });
  try {
    run.trainer.run();
    FAIL() << "it should have stopped";
  } catch (const DivergedError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("training stopped"), std::string::npos) << message;
    EXPECT_NE(message.find("going back 2 times"), std::string::npos) << message;
    EXPECT_NE(message.find("; "), std::string::npos) << message;
  }
  EXPECT_EQ(run.warnings.size(), 2U);
}

}  // namespace
}  // namespace deq::lab

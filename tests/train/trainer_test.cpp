#include "deq/lab/train/trainer.h"
#include "deq/lab/settings/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>

#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/checkpoint_file.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/settings/files.h"
#include "deq/lab/trained/load_run.h"
#include "io/temporary_folder.h"
#include "train/training_run.h"

namespace deq::lab {
namespace {

using test::same_bits;
using test::short_config;
using test::TrainingRun;

class TrainerTest : public ::testing::Test {
 protected:
  std::filesystem::path folder(const std::string& name) const { return folder_.path() / name; }

  std::map<std::string, torch::Tensor> trained(const SyntheticConfig& config,
                                               const std::string& name) {
    TrainingRun run(config, make(name));
    EXPECT_EQ(run.trainer.run(), TrainingEnd::Finished);
    return run.weights();
  }

  std::filesystem::path make(const std::string& name) {
    std::filesystem::create_directories(folder(name));
    return folder(name);
  }

  test::TemporaryFolder folder_;
};

TEST_F(TrainerTest, WritesWhatTheDocumentationLists) {
  auto config = short_config();
  config.train.eval_budgets = {1, 3};
  TrainingRun run(config, make("run"));
  run.trainer.run();
  ASSERT_EQ(run.of("train").size(), 8U);
  ASSERT_EQ(run.of("valid").size(), 2U);
  const auto last = run.of("train").back();
  for (const char* name : {"step",
                           "epoch",
                           "seconds",
                           "loss",
                           "task_loss",
                           "penalty",
                           "gamma",
                           "probability",
                           "nfe_forward",
                           "nfe_sample",
                           "nfe_adjoint",
                           "residual",
                           "residual_p50",
                           "residual_p90",
                           "residual_p99",
                           "adjoint_residual",
                           "lr",
                           "grad_norm",
                           "skipped_steps",
                           "rollbacks",
                           "samples_per_s",
                           "peak_memory_mib"}) {
    EXPECT_TRUE(std::isfinite(number(last, name))) << name;
  }
  EXPECT_EQ(number(last, "step"), 32);
  EXPECT_EQ(number(last, "epoch"), 4);
  double stopped = 0;
  for (const auto& [name, value] : last) {
    if (name.starts_with("stopped.")) stopped += number(last, name);
  }
  EXPECT_NEAR(stopped, 1, 1e-9);
  const auto valid = run.of("valid").back();
  EXPECT_GT(number(valid, "residual@1"), number(valid, "residual@3"));
  EXPECT_TRUE(std::isfinite(number(valid, "mse@3")));
  EXPECT_GE(number(valid, "path_distance"), 0);
  const auto lines = read_json_lines(metrics_file(run.run));
  EXPECT_EQ(lines.size(), run.lines.size());
}

TEST_F(TrainerTest, AccumulationIsTheSameStepInParts) {
  auto config = short_config();
  config.precision = Precision::Float64;
  const auto whole = trained(config, "whole");
  config.train.accumulation = 4;
  const auto parts = trained(config, "parts");
  for (const auto& [name, tensor] : whole) {
    EXPECT_TRUE(torch::allclose(tensor, parts.at(name), 1e-9, 1e-11)) << name;
  }
}

TEST_F(TrainerTest, TheSameRunTwiceGivesTheSameBits) {
  EXPECT_TRUE(same_bits(trained(short_config(), "a"), trained(short_config(), "b")));
}

// The model's state is one number: of signs, the squared gain and the Frobenius estimate are J²,
// whatever the power steps.
TEST_F(TrainerTest, PowerStepsPenaliseTheGain) {
  auto config = short_config();
  config.precision = Precision::Float64;
  config.jacobian.gamma = {.shape = ConstantSchedule{.value = 0.5}};
  config.jacobian.estimator.distribution = ProbeDistribution::Rademacher;
  const auto of_norm = trained(config, "norm");
  config.jacobian.power_steps = 2;
  const auto of_gain = trained(config, "gain");
  for (const auto& [name, tensor] : of_norm) {
    EXPECT_TRUE(torch::allclose(tensor, of_gain.at(name), 1e-9, 1e-11)) << name;
  }
  config.jacobian.gamma = {.shape = ConstantSchedule{.value = 0}};
  EXPECT_FALSE(same_bits(trained(config, "none"), of_gain)) << "without a penalty";
}

TEST_F(TrainerTest, RandomStartsAreThoseOfTheSeed) {
  auto config = short_config();
  const auto plain = trained(config, "plain");
  config.train.start_noise = 0.5;
  const auto random = trained(config, "random");
  EXPECT_FALSE(same_bits(random, plain));
  EXPECT_TRUE(same_bits(random, trained(config, "again")));
}

// Interrupted after any step, and resumed: the same bits as if nothing had been.
TEST_F(TrainerTest, GoesOnToTheSameBits) {
  auto config = short_config();
  config.jacobian.control = {.hold = Held::Residual, .target = 1e-3, .every = 3};
  config.train.random_evals = {.low = -2, .high = 2};
  config.train.pretrain = {.steps = 5, .layers = 3, .gamma = 0.1};
  config.train.weight_average = 0.9;
  config.train.start_noise = 0.5;
  const auto expected = trained(config, "straight");
  for (int64_t stop = 1; stop < 32; stop += 3) {
    const auto name = "stopped-" + std::to_string(stop);
    {
      TrainingRun first(config, make(name));
      first.interrupted = [&first, stop] { return first.task.passes() == stop ? SIGTERM : 0; };
      ASSERT_EQ(first.trainer.run(), TrainingEnd::Interrupted);
      EXPECT_EQ(number(first.lines.back(), "step"), stop);
    }
    TrainingRun second(config, folder(name));
    second.trainer.resume();
    ASSERT_EQ(second.trainer.run(), TrainingEnd::Finished);
    EXPECT_TRUE(same_bits(second.weights(), expected)) << "stopped after step " << stop;
    EXPECT_EQ(second.task.passes(), 32 - stop);
  }
}

// A signal that comes while a validation runs ends it; the resumed run makes it again.
TEST_F(TrainerTest, GivesUpAValidationAndMakesItAgain) {
  auto config = short_config();
  config.train.weight_average = 0.9;
  const auto expected_lines = [&] {
    TrainingRun run(config, make("straight"));
    run.trainer.run();
    return run.of("valid");
  }();
  const auto expected = trained(config, "again");
  int64_t given_up = 0;
  for (int64_t stop = 1; stop < 2000; stop = stop * 3 / 2 + 1) {
    const auto name = "stopped-" + std::to_string(stop);
    auto end = TrainingEnd::Finished;
    size_t validations = 0;
    int64_t step = 0;
    {
      TrainingRun first(config, make(name));
      first.interrupted = [asked = int64_t{0}, stop]() mutable {
        return ++asked == stop ? SIGTERM : 0;
      };
      end = first.trainer.run();
      validations = first.of("valid").size();
      step = first.trainer.step();
      if (end == TrainingEnd::Finished) break;
      if (static_cast<int64_t>(validations) < step / 16) {
        ++given_up;
        EXPECT_TRUE(first.task.model().is_training());
      }
    }
    TrainingRun second(config, folder(name));
    second.trainer.resume();
    ASSERT_EQ(second.trainer.run(), TrainingEnd::Finished);
    EXPECT_TRUE(same_bits(second.weights(), expected)) << "given up at question " << stop;
    std::vector<double> values, expected_values;
    for (const auto& line : read_json_lines(metrics_file(second.run))) {
      const Metrics metrics(line.begin(), line.end());
      if (text(metrics, "split") == "valid") values.push_back(number(metrics, "mse"));
    }
    for (const auto& line : expected_lines) expected_values.push_back(number(line, "mse"));
    EXPECT_EQ(values, expected_values) << "given up at question " << stop;
    const auto best = read_checkpoint_file(Checkpoints(checkpoint_folder(second.run), 2).best());
    EXPECT_EQ(best.metadata.at("training_state").find("unevaluated"), std::string::npos);
  }
  EXPECT_GE(given_up, 3);
}

TEST_F(TrainerTest, CountsTheTimeOfValidationsApart) {
  auto config = short_config();
  TrainingRun run(config, make("run"));
  run.trainer.run();
  double left = 0;  // of the clock without what went into validations: never less than before
  for (const auto& line : run.lines) {
    EXPECT_LE(number(line, "train_seconds"), number(line, "seconds"));
    EXPECT_GE(number(line, "train_seconds"), left);
    left = number(line, "train_seconds");
  }
  const auto trained = run.of("train"), valid = run.of("valid");
  EXPECT_EQ(number(valid[0], "train_seconds"), number(valid[0], "seconds"));
  EXPECT_LT(number(valid[1], "train_seconds"), number(valid[1], "seconds"));
}

// Validated and saved is the mean of the weights, by the rule that its configuration tells.
TEST_F(TrainerTest, AveragesItsWeights) {
  constexpr double kDecay = 0.6;
  auto config = short_config();
  config.train.steps = 7;
  config.train.weight_average = kDecay;
  config.train.checkpoints.every_steps = 1;
  config.train.checkpoints.keep = 10;
  TrainingRun run(config, make("run"));
  run.trainer.run();
  const Checkpoints files(checkpoint_folder(run.run), 10);
  const auto trained = [&](int64_t step, const std::string& name) {
    return read_checkpoint_file(files.file_of(step)).tensors.at(std::string(kTrainedPrefix) + name);
  };
  write_file_atomically(config_file(run.run), to_toml(config));
  auto task = load_run(run.run).task;
  for (const auto& item : task->model().named_parameters()) {
    auto mean = trained(0, item.key());
    for (int64_t step = 1; step <= 7; ++step) {
      const auto steps = static_cast<double>(step);
      const double kept = std::min(kDecay, (1 + steps) / (10 + steps));
      mean = kept * mean + (1 - kept) * trained(step, item.key());
    }
    EXPECT_TRUE(torch::allclose(item.value(), mean, 1e-5, 1e-7)) << item.key();
    EXPECT_TRUE(run.weights().at(item.key()).equal(trained(7, item.key()))) << item.key();
    EXPECT_FALSE(torch::allclose(item.value(), trained(7, item.key()), 1e-5, 1e-7)) << item.key();
  }
  const auto world = World::alone();
  task->model().eval();
  const torch::NoGradGuard no_grad;
  const auto metrics = task->evaluate(evaluation_options(config), *world);
  EXPECT_EQ(number(metrics, "mse"), number(run.of("valid").back(), "mse"));
}

TEST_F(TrainerTest, ResumingForgetsLinesAfterTheCheckpoint) {
  auto config = short_config();
  config.train.checkpoints.every_steps = 8;
  TrainingRun first(config, make("run"));
  first.interrupted = [&first] { return first.task.passes() == 14 ? SIGINT : 0; };
  first.trainer.run();
  // As if it had died before it could save: the last whole one is of step 8.
  const Checkpoints checkpoints(checkpoint_folder(first.run), 2);
  std::filesystem::remove(checkpoints.file_of(14));
  TrainingRun second(config, first.run);
  second.trainer.resume();
  second.trainer.run();
  std::vector<int64_t> steps;
  for (const auto& line : read_json_lines(metrics_file(first.run))) {
    if (std::get<std::string>(line.at("split")) == "train") {
      steps.push_back(std::get<int64_t>(line.at("step")));
    }
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{4, 8, 12, 16, 20, 24, 28, 32}));
}

TEST_F(TrainerTest, ADamagedCheckpointIsPassedOver) {
  auto config = short_config();
  config.train.checkpoints.every_steps = 8;
  const auto expected = trained(config, "run");
  const Checkpoints checkpoints(checkpoint_folder(folder("run")), 2);
  write_file_atomically(checkpoints.file_of(32), "torn");
  TrainingRun again(config, folder("run"));
  again.trainer.resume();
  ASSERT_EQ(again.warnings.size(), 1U);
  EXPECT_NE(again.warnings[0].find("step-000000032"), std::string::npos);
  again.trainer.run();
  EXPECT_EQ(again.task.passes(), 8);
  EXPECT_TRUE(same_bits(again.weights(), expected));
}

TEST_F(TrainerTest, KeepsTheBestCheckpoint) {
  auto config = short_config();
  TrainingRun run(config, make("run"));
  write_file_atomically(config_file(run.run), to_toml(config));
  run.trainer.run();
  double best = INFINITY;
  for (const auto& line : run.of("valid")) best = std::min(best, number(line, "mse"));
  auto loaded = load_run(run.run, torch::kCPU, WhichCheckpoint::Best);
  const auto world = World::alone();
  const torch::NoGradGuard no_grad;
  const auto measured = loaded.task->evaluate(evaluation_options(config), *world);
  EXPECT_EQ(number(measured, "mse"), best);
}

TEST_F(TrainerTest, ClipsTheGradient) {
  auto config = short_config();
  config.train.optimiser = Sgd{.momentum = 0, .nesterov = false};
  config.train.lr_schedule.shape = ConstantRate{};
  config.train.lr = 1;
  config.train.clip_norm = 1e-3;
  config.train.epochs = 1;
  config.jacobian.gamma = {};
  TrainingRun run(config, make("run"));
  const auto before = run.weights();
  run.trainer.run();
  double moved = 0;
  for (const auto& [name, tensor] : run.weights()) {
    moved += (tensor - before.at(name)).square().sum().item<double>();
  }
  EXPECT_GT(std::sqrt(moved), 1e-4);
  EXPECT_LE(std::sqrt(moved), 8 * 1e-3 * (1 + 1e-3));
}

}  // namespace
}  // namespace deq::lab

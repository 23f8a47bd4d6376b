#include "lab/reproduce/run_state.h"

#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/runs/run.h"
#include "deq/lab/tasks/experiment.h"
#include "deq/lab/tasks/synthetic.h"
#include "io/temporary_folder.h"
#include "lab/reproduce/run_summary.h"

namespace deq::lab::reproduce {
namespace {

using deq::test::message_of;
using deq::test::TemporaryFolder;

Experiment wanted(double gamma = 1) {
  SyntheticConfig config;
  config.jacobian.gamma = {.shape = ConstantSchedule{.value = gamma}};
  return experiment_from(config);
}

/// A folder as an interrupted run leaves it.
void start_run(const std::filesystem::path& folder, const std::string& config) {
  std::filesystem::create_directories(checkpoint_folder(folder));
  write_file_atomically(config_file(folder), config);
}

void save(const std::filesystem::path& folder, int64_t step) {
  const auto weights = torch::full({3}, static_cast<double>(step));
  Checkpoints(checkpoint_folder(folder), 2)
      .save(step, {.tensors = {{"w", weights},
                               {"optimiser/exp_avg/w", weights},
                               {"statistics", torch::zeros(7)}},
                   .metadata = {}});
}

TEST(RunState, FollowsARunFromNothingToItsEnd) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  EXPECT_EQ(need_of(run, wanted()), Need::Train);
  std::filesystem::create_directories(run);
  EXPECT_EQ(need_of(run, wanted()), Need::Train);
  start_run(run, wanted().config);
  EXPECT_EQ(need_of(run, wanted()), Need::Resume);
  save(run, 10);
  EXPECT_EQ(need_of(run, wanted()), Need::Resume);
  write_summary(run, new_summary(run, ""));
  EXPECT_EQ(need_of(run, wanted()), Need::Nothing);
  save(run, 20);  // somebody went on with it: what was measured is of another model
  EXPECT_EQ(need_of(run, wanted()), Need::Resume);
}

TEST(RunState, ARunOfSoManyStepsNeedsNoSummary) {
  const TemporaryFolder folder;
  SyntheticConfig config;
  config.train.steps = 20;
  const auto experiment = experiment_from(config);
  const auto run = folder / "run";
  start_run(run, experiment.config);
  save(run, 10);
  EXPECT_EQ(need_of(run, experiment), Need::Resume);
  save(run, 20);
  EXPECT_EQ(need_of(run, experiment), Need::Nothing);
}

TEST(RunState, WhatIsKnownOutlivesTheCheckpoints) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  start_run(run, wanted().config);
  save(run, 10);
  write_summary(run, new_summary(run, ""));
  std::filesystem::remove_all(checkpoint_folder(run));
  EXPECT_EQ(need_of(run, wanted()), Need::Nothing);
}

TEST(RunState, AnotherConfigurationIsRefused) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  start_run(run, wanted(1).config);
  EXPECT_EQ(message_of<UsageError>([&] { need_of(run, wanted(2)); }),
            run.string() +
                " holds a run with jacobian.gamma = 1.0, where 2.0 is wanted: name another folder "
                "with --out, or remove this one");
  EXPECT_EQ(need_of(run, wanted(1)), Need::Resume);
}

TEST(RunState, WhatIsNoRunIsLeftAlone) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "notes.txt", "mine");
  EXPECT_NE(
      message_of<UsageError>([&] { need_of(folder.path(), wanted()); }).find("already holds files"),
      std::string::npos);
}

TEST(RunState, WhereTheDataLiesDoesNotMatter) {
  const TemporaryFolder folder;
  const auto experiment = [&folder](const std::string& lines) {
    write_file_atomically(folder / "x.toml", "experiment = \"vision\"\n[data]\n" + lines);
    return read_experiment(folder / "x.toml");
  };
  const auto run = folder / "run";
  start_run(run, experiment("path = \"here\"\nformat = \"folder\"\n").config);
  EXPECT_EQ(need_of(run, experiment("path = \"there\"\nformat = \"cifar10\"\n")), Need::Resume);
  EXPECT_NE(message_of<UsageError>([&] {
              need_of(run, experiment("path = \"here\"\naugment = false\n"));
            }).find("data.augment = true, where false"),
            std::string::npos);
}

TEST(RunSummary, ComesBackAsItWas) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  start_run(run, wanted().config);
  EXPECT_FALSE(read_summary(run).has_value());
  save(run, 10);
  auto summary = new_summary(run, "training stopped: why");
  EXPECT_EQ(summary.parameters, 3);
  summary.add({{"budget", int64_t{6}}, {"accuracy", 80.5}});
  summary.add({{"budget", int64_t{2}}, {"accuracy", 60.0}});
  write_summary(run, summary);
  const auto read = read_summary(run);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->failure, "training stopped: why");
  EXPECT_EQ(read->parameters, 3);
  ASSERT_EQ(read->evaluations.size(), 2U);
  EXPECT_EQ(number(read->evaluations[0], "budget"), 2);
  EXPECT_EQ(number(*read->evaluation(6), "accuracy"), 80.5);
  EXPECT_EQ(read->evaluation(3), nullptr);
  write_file_atomically(run / "reproduce.json", "{");
  EXPECT_NE(message_of<Error>([&] { read_summary(run); }).find("reproduce.json"),
            std::string::npos);
}

}  // namespace
}  // namespace deq::lab::reproduce

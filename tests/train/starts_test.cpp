#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <map>

#include "deq/lab/base/errors.h"
#include "deq/lab/tasks/experiment.h"
#include "deq/nn/start_distance.h"
#include "io/temporary_folder.h"
#include "lab/train/gamma_controller.h"
#include "lab/train/start_penalties.h"
#include "lab/train/step_plan.h"
#include "support/cells.h"
#include "support/seed.h"
#include "train/training_run.h"

// What trainings add to their loss to shorten solves.

namespace deq::lab {
namespace {

StepPlan plan_of(const Recipe& recipe, int64_t step) {
  return plan_step(recipe, GammaController(recipe.jacobian.control, 0), step, 1000, 100);
}

TEST(StartPenaltyPlan, DrawsTheEvaluationsBeforeTheStep) {
  Recipe recipe;
  recipe.train.step_penalty = 0.5;
  recipe.train.step_evals = 3;
  std::map<int64_t, int> seen;
  for (int64_t step = 0; step < 400; ++step) {
    const auto plan = plan_of(recipe, step);
    EXPECT_EQ(plan.step_penalty, 0.5);
    EXPECT_EQ(plan.step_evals, plan_of(recipe, step).step_evals);
    ++seen[plan.step_evals];
  }
  ASSERT_EQ(seen.size(), 4U);
  for (const auto& [evals, count] : seen) {
    EXPECT_TRUE(evals >= 0 && evals <= 3) << evals;
    EXPECT_NEAR(count, 100, 60) << evals << ", to seven standard deviations";
  }
}

TEST(StartPenaltyPlan, BeginsWithTheSolvesAndEvaluatesThemWhereItSteps) {
  Recipe recipe;
  recipe.train.pretrain.steps = 3;
  recipe.train.start_penalty = 0.25;
  EXPECT_EQ(plan_of(recipe, 2).start_penalty, 0);
  EXPECT_EQ(plan_of(recipe, 3).start_penalty, 0.25);
  EXPECT_EQ(plan_of(recipe, 3).how.replay, Replay::Automatic);
  recipe.train.step_penalty = 1;
  EXPECT_EQ(plan_of(recipe, 2).step_penalty, 0);
  EXPECT_EQ(plan_of(recipe, 2).how.replay, Replay::Automatic);
  EXPECT_EQ(plan_of(recipe, 3).how.replay, Replay::Off);
}

TEST(StartPenaltyPlan, StepsFromAStateOnTheWayOfItsSolve) {
  Recipe recipe;
  recipe.solver.forward = Broyden{.max_evals = 5};
  recipe.train.step_penalty = 0.5;
  recipe.train.step_evals = 4;
  recipe.train.random_evals = {.low = -4, .high = 0};
  std::map<int64_t, int64_t> most;  // by budget
  for (int64_t step = 0; step < 500; ++step) {
    const auto plan = plan_of(recipe, step);
    auto& seen = most[max_evals(plan.how.forward)];
    seen = std::max(seen, plan.step_evals);
  }
  EXPECT_EQ(most, (std::map<int64_t, int64_t>{{1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 4}}));
}

class StartPenaltiesTest : public test::Seeded {};

TEST_F(StartPenaltiesTest, AreMeansOverSamplesAndSumsOverLayers) {
  const auto problem = test::cell_problem(4, 6, 0.3, generator_);
  const Picard solver{.tol = {.rtol = 1e-12}, .max_evals = 300};
  Equilibrium layer(problem.cell, EquilibriumOptions{.forward = solver});
  TaskPass pass;
  for (int i = 0; i < 2; ++i) {
    const auto start = torch::randn({4, 6}, generator_, test::f64());
    pass.equilibria.push_back(layer->forward({problem.x}, {.start = {start}}));
  }
  StepPlan plan{.start_penalty = 1, .step_penalty = 1, .how = {.forward = solver}};
  for (const int64_t evals : {0, 1, 4}) {
    plan.step_evals = evals;
    const auto distances = start_penalties(pass, plan);
    double start = 0, step = 0;
    for (const auto& eq : pass.equilibria) {
      start += start_distance(eq).mean().item<double>();
      // Picard's way is f again and again.
      auto z = eq.start();
      for (int64_t k = 0; k < evals; ++k) z = eq.stepped_from(z);
      step += step_distance(eq, z).mean().item<double>();
    }
    EXPECT_NEAR(distances.start.item<double>(), start, 1e-12 * start);
    EXPECT_NEAR(distances.step.item<double>(), step, 1e-12 * step) << evals;
    EXPECT_TRUE(distances.step.requires_grad());
  }
  const auto none = start_penalties(pass, StepPlan{});
  EXPECT_FALSE(none.start.defined() || none.step.defined());
}

class StartsTraining : public ::testing::Test {
 protected:
  std::filesystem::path make(const std::string& name) const {
    std::filesystem::create_directories(folder_.path() / name);
    return folder_.path() / name;
  }
  static SyntheticConfig config() {
    auto config = test::short_config();
    config.train.step_penalty = 0.5;
    config.train.step_evals = 3;
    config.train.random_evals = {.low = -1, .high = 1};
    config.train.start_noise = 0.2;
    config.train.accumulation = 2;
    config.train.pretrain = {.steps = 3, .layers = 2, .gamma = 0};
    return config;
  }

  test::TemporaryFolder folder_;
};

TEST_F(StartsTraining, SaysTheDistanceOfTheStepsThatHadOne) {
  test::TrainingRun run(config(), make("run"));
  run.trainer.run();
  for (const auto& line : run.of("train")) {
    EXPECT_GT(number(line, "step_distance"), 0);
    EXPECT_TRUE(std::isnan(number(line, "start_distance")));
  }
  // All steps of the second line on have it.
  const auto line = run.of("train").at(3);
  EXPECT_GT(number(line, "loss"), number(line, "task_loss") + 0.4 * number(line, "step_distance"));
}

TEST_F(StartsTraining, GoesOnToTheSameBits) {
  test::TrainingRun straight(config(), make("straight"));
  straight.trainer.run();
  auto other = config();
  other.train.step_evals = 0;
  test::TrainingRun without(other, make("without"));
  without.trainer.run();
  EXPECT_FALSE(test::same_bits(straight.weights(), without.weights()));
  for (const int64_t stop : {2, 5, 20, 41}) {
    const auto folder = make("stopped-" + std::to_string(stop));
    {
      test::TrainingRun first(config(), folder);
      first.interrupted = [&first, stop] { return first.task.passes() >= stop ? SIGTERM : 0; };
      ASSERT_EQ(first.trainer.run(), TrainingEnd::Interrupted);
    }
    test::TrainingRun second(config(), folder);
    second.trainer.resume();
    ASSERT_EQ(second.trainer.run(), TrainingEnd::Finished);
    EXPECT_TRUE(test::same_bits(second.weights(), straight.weights())) << "stopped at " << stop;
  }
}

class BlendedTraining : public StartsTraining {
 protected:
  static SyntheticConfig blended() {
    auto config = test::short_config();
    config.solver.forward = Broyden{.max_evals = 12};
    config.jacobian.gamma = {.shape = ConstantSchedule{.value = 0.1}};
    config.train.pretrain = {.steps = 4, .layers = 2, .gamma = 0.1};
    config.train.switching = {.steps = 24, .extra_evals = 4, .blended = true};
    return config;
  }
};

TEST_F(BlendedTraining, CountsSolvesWhereThereAreSome) {
  const auto config = blended();
  std::vector<Equilibrated> passes;
  test::TrainingRun run(config, make("run"), [&passes](int64_t, const TaskPass& pass) {
    passes.push_back(pass.equilibria.front());
  });
  run.trainer.run();
  const auto lines = run.of("train");
  ASSERT_EQ(lines.size() * 4, passes.size());
  int mixed = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::vector<const Equilibrated*> steps, solved;
    for (size_t pass = 4 * i; pass < 4 * i + 4; ++pass) {
      steps.push_back(&passes[pass]);
      if (!plan_of(config, static_cast<int64_t>(pass)).pretraining) solved.push_back(steps.back());
    }
    mixed += solved.size() % 4 != 0 ? 1 : 0;
    if (!solved.empty()) steps = solved;
    double forward = 0, adjoint = 0, residual = 0, converged = 0, samples = 0;
    for (const auto* eq : steps) {
      forward += static_cast<double>(eq->report.evaluations);
      adjoint += static_cast<double>(eq->adjoint().evaluations);
      residual += eq->report.mean_relative();
      for (const auto& sample : eq->report.samples) {
        converged += sample.status == Status::Converged ? 1 : 0;
        ++samples;
      }
    }
    const auto count = static_cast<double>(steps.size());
    EXPECT_NEAR(number(lines[i], "nfe_forward"), forward / count, 1e-9) << "line " << i;
    EXPECT_NEAR(number(lines[i], "nfe_adjoint"), adjoint / count, 1e-9) << "line " << i;
    EXPECT_NEAR(number(lines[i], "residual"), residual / count, 1e-9) << "line " << i;
    const double share = number(lines[i], "stopped.converged");
    EXPECT_NEAR(std::isnan(share) ? 0 : share, converged / samples, 1e-9) << "line " << i;
  }
  EXPECT_GE(mixed, 2) << "lines with steps of both kinds";
}

TEST_F(BlendedTraining, GoesOnToTheSameBits) {
  test::TrainingRun straight(blended(), make("straight"));
  straight.trainer.run();
  auto other = blended();
  other.train.switching.blended = false;
  test::TrainingRun without(other, make("without"));
  without.trainer.run();
  EXPECT_FALSE(test::same_bits(straight.weights(), without.weights()));
  for (const int64_t stop : {3, 7, 13, 22}) {
    const auto folder = make("stopped-" + std::to_string(stop));
    {
      test::TrainingRun first(blended(), folder);
      first.interrupted = [&first, stop] { return first.task.passes() >= stop ? SIGTERM : 0; };
      ASSERT_EQ(first.trainer.run(), TrainingEnd::Interrupted);
    }
    test::TrainingRun second(blended(), folder);
    second.trainer.resume();
    ASSERT_EQ(second.trainer.run(), TrainingEnd::Finished);
    EXPECT_TRUE(test::same_bits(second.weights(), straight.weights())) << "stopped at " << stop;
  }
}

class ConfigOfSteps : public ::testing::Test {
 protected:
  /// What is said about this configuration; empty: nothing.
  std::string refusal(const std::string& experiment, const std::vector<std::string>& overrides) {
    const auto path = folder_.path() / (experiment + ".toml");
    std::ofstream(path) << "experiment = \"" << experiment << "\"\n"
                        << (experiment == "synthetic" ? "" : "[data]\npath = \"data\"\n");
    try {
      read_experiment(path, overrides);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  test::TemporaryFolder folder_;
};

TEST_F(ConfigOfSteps, IsTakenWhereItCanWork) {
  const std::vector<std::string> both{"train.start_penalty=0.1", "train.step_penalty=0.1",
                                      "train.step_evals=2", "model.predicted_start=true"};
  for (const char* experiment : {"vision", "language", "segmentation"}) {
    EXPECT_EQ(refusal(experiment, both), "") << experiment;
  }
  for (const char* experiment : {"synthetic", "reasoning", "vision", "language", "segmentation"}) {
    EXPECT_EQ(refusal(experiment, {"gradient.name=implicit", "train.step_penalty=0.1"}), "")
        << experiment;
  }
  EXPECT_EQ(refusal("vision", {"model.name=monotone", "train.step_penalty=0.1"}), "");
  EXPECT_EQ(refusal("vision", {"gradient.name=phantom", "train.step_penalty=0.1"}), "");
}

TEST_F(ConfigOfSteps, SaysWhereItCannot) {
  const std::string no_start =
      ": this network has no start that could learn; model.predicted_start = true gives one to "
      "mdeq, deq-transformer and the segmentation's network";
  for (const char* experiment : {"synthetic", "vision", "language", "segmentation"}) {
    EXPECT_EQ(refusal(experiment, {"train.start_penalty=0.1"}),
              "train.start_penalty = 0.1" + no_start)
        << experiment;
  }
  const std::string no_equilibrium =
      ": this network has no equilibrium, so there is no solve to shorten";
  EXPECT_EQ(refusal("vision", {"model.name=resnet", "train.step_penalty=2"}),
            "train.step_penalty = 2" + no_equilibrium);
  EXPECT_EQ(refusal("language", {"model.name=gpt2", "train.start_penalty=2"}),
            "train.start_penalty = 2" + no_equilibrium);
  EXPECT_EQ(
      refusal("vision", {"model.name=resnet", "train.start_noise=0.5"}),
      "train.start_noise = 0.5: this network has no equilibrium, so no solve begins anywhere");
  EXPECT_EQ(
      refusal("language", {"model.name=gpt2", "jacobian.control.hold=rho"}),
      "jacobian.control.hold must be \"nothing\": this network has no equilibrium, so there is "
      "nothing that gamma could hold");
  const std::string no_solve =
      ": with this gradient.name training takes a fixed number of steps and finds no equilibrium "
      "to "
      "measure a distance to";
  for (const char* gradient : {"unrolled", "reversible"}) {
    EXPECT_EQ(refusal("vision", {std::string("gradient.name=") + gradient,
                                 "train.start_penalty=0.1", "model.predicted_start=true"}),
              "train.start_penalty = 0.1" + no_solve);
    EXPECT_EQ(
        refusal("synthetic", {std::string("gradient.name=") + gradient, "train.step_penalty=0.1"}),
        "train.step_penalty = 0.1" + no_solve);
  }
  EXPECT_EQ(refusal("synthetic", {"train.step_evals=2"}),
            "train.step_evals = 2 does nothing without train.step_penalty");
  for (const char* evals : {"6", "7"}) {
    EXPECT_EQ(refusal("synthetic", {"train.step_penalty=0.1", "solver.forward.max_evals=6",
                                    std::string("train.step_evals=") + evals}),
              std::string("train.step_evals = ") + evals +
                  ": must be less than solver.forward.max_evals = 6, since the step is to begin on "
                  "the way of a solve");
  }
  EXPECT_EQ(refusal("synthetic",
                    {"train.step_penalty=0.1", "solver.forward.max_evals=6", "train.step_evals=5"}),
            "");
}

TEST_F(ConfigOfSteps, ABlendHasSteps) {
  EXPECT_EQ(refusal("synthetic", {"train.switch.blended=true"}),
            "train.switch.blended = true does nothing without train.switch.steps");
  EXPECT_EQ(refusal("synthetic", {"train.switch.blended=true", "train.switch.steps=5"}), "");
}

}  // namespace
}  // namespace deq::lab

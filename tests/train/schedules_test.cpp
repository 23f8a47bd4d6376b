#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "deq/lab/settings/evaluation.h"
#include "deq/lab/settings/learning_rate.h"
#include "deq/lab/tasks/experiment.h"
#include "lab/train/gamma_controller.h"
#include "lab/train/step_plan.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

TEST(LearningRate, CosineFromItsPeakToItsEnd) {
  const LearningRateSchedule schedule{.shape = CosineRate{.final_lr = 0.1}};
  EXPECT_DOUBLE_EQ(schedule.at(0, 100, 1.1), 1.1);
  EXPECT_DOUBLE_EQ(schedule.at(50, 100, 1.1), 0.6);
  EXPECT_NEAR(schedule.at(99, 100, 1.1), 0.1, 1e-3);
}

TEST(LearningRate, WarmUpThenACosineWithoutAJump) {
  const LearningRateSchedule schedule{.warmup_steps = 10, .shape = CosineRate{}};
  EXPECT_DOUBLE_EQ(schedule.at(0, 100, 2), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(9, 100, 2), 2);
  EXPECT_DOUBLE_EQ(schedule.at(10, 100, 2), 2);
  EXPECT_DOUBLE_EQ(schedule.at(55, 100, 2), 1);
}

// The public code counts its cosine in global steps: after the warm-up the rate falls at once.
TEST(LearningRate, TheReferencesCosineIsCountedFromTheStart) {
  const LearningRateSchedule schedule{.warmup_steps = 25,
                                      .shape = CosineRate{.origin = CosineRate::Origin::Start}};
  EXPECT_DOUBLE_EQ(schedule.at(24, 100, 1), 1);
  EXPECT_DOUBLE_EQ(schedule.at(25, 100, 1), 0.5 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(schedule.at(50, 100, 1), 0.5);
}

TEST(LearningRate, StairsAndConstant) {
  const LearningRateSchedule stairs{.shape = StepRate{.every = 30, .factor = 0.1}};
  EXPECT_DOUBLE_EQ(stairs.at(29, 100, 1), 1);
  EXPECT_DOUBLE_EQ(stairs.at(30, 100, 1), 0.1);
  EXPECT_DOUBLE_EQ(stairs.at(99, 100, 1), 0.1 * 0.1 * 0.1);
  const LearningRateSchedule constant{.warmup_steps = 2, .shape = ConstantRate{}};
  EXPECT_DOUBLE_EQ(constant.at(0, 100, 1), 0.5);
  EXPECT_DOUBLE_EQ(constant.at(77, 100, 1), 1);
}

// A plant like the real one: what is held falls as γ grows, late and with noise.
TEST(GammaController, ReachesItsTargetAndStays) {
  const uint64_t seed = test::seed();
  SCOPED_TRACE(::testing::Message() << "DEQ_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  std::lognormal_distribution<double> noise(0, 0.05);
  for (const double start : {1e-3, 0.5, 10.0}) {
    GammaController controller({.hold = Held::SpectralRadius, .target = 0.5}, start);
    double rho = 2, mean = 0;
    constexpr int kAdjustments = 300, kSettled = 100;
    for (int i = 0; i < kAdjustments; ++i) {
      rho += 0.2 * (1 / (0.5 + controller.gamma()) - rho);  // γ = 1.5 holds 0.5
      controller.adjust(rho * noise(random));
      if (i < kSettled) continue;
      mean += rho / (kAdjustments - kSettled);
      EXPECT_NEAR(rho, 0.5, 0.2);
    }
    EXPECT_NEAR(mean, 0.5, 0.05);
  }
}

TEST(GammaController, StaysWithinItsLimitsAndChangesGently) {
  GammaController controller({.hold = Held::Residual, .target = 1, .min = 0.1, .max = 4}, 0.5);
  controller.adjust(1e9);
  EXPECT_DOUBLE_EQ(controller.gamma(), 2);
  for (int i = 0; i < 50; ++i) controller.adjust(1e9);
  EXPECT_DOUBLE_EQ(controller.gamma(), 4);
  for (int i = 0; i < 200; ++i) controller.adjust(0);
  EXPECT_DOUBLE_EQ(controller.gamma(), 0.1);
}

TEST(GammaController, TakesWhatIsNotFiniteAsTooMuch) {
  GammaController controller({.hold = Held::Residual, .target = 1, .smoothing = 0}, 1);
  controller.adjust(NAN);
  EXPECT_GT(controller.gamma(), 1);
  EXPECT_TRUE(std::isfinite(controller.gamma()));
}

TEST(GammaController, GoesOnFromWhatWasKept) {
  const GammaControl options{.hold = Held::SpectralRadius, .target = 0.7};
  GammaController first(options, 1), second(options, 5);
  for (const double rho : {1.0, 0.9, 2.0}) first.adjust(rho);
  second.restore(first.gamma(), first.smoothed());
  first.adjust(0.3);
  second.adjust(0.3);
  EXPECT_EQ(first.gamma(), second.gamma());
  EXPECT_EQ(first.smoothed(), second.smoothed());
}

StepPlan plan(const Recipe& recipe, int64_t step) {
  const GammaController controller(recipe.jacobian.control, recipe.jacobian.gamma.at(0));
  return plan_step(recipe, controller, step, 1000, 100);
}

TEST(StepPlan, PretrainingUnrollsWithItsOwnGamma) {
  Recipe recipe;
  recipe.train.pretrain = {.steps = 10, .layers = 7, .gamma = 0.03};
  recipe.jacobian.gamma = {.shape = StaircaseSchedule{.start = 2, .increment = 0.1, .every = 50}};
  EXPECT_EQ(std::get<Unrolled>(plan(recipe, 9).how.gradient).steps, 7);
  EXPECT_EQ(plan(recipe, 9).gamma, 0.03);
  EXPECT_TRUE(std::holds_alternative<Implicit>(plan(recipe, 10).how.gradient));
  // The stairs are counted from the end of the pretraining.
  EXPECT_EQ(plan(recipe, 59).gamma, 2);
  EXPECT_EQ(plan(recipe, 60).gamma, 2.1);
}

TEST(StepPlan, UnrolledStepsAreReplayedWhereNoPenaltyNeedsTheirMasks) {
  Recipe recipe;
  recipe.train.pretrain = {.steps = 100, .layers = 2, .gamma = 0.03};
  recipe.jacobian.probability = {.shape = ConstantSchedule{.value = 0.5}};
  int penalised = 0;
  for (int64_t step = 0; step < 100; ++step) {
    const auto how = plan(recipe, step);
    EXPECT_EQ(std::get<Unrolled>(how.how.gradient).replayed, !how.penalised);
    EXPECT_FALSE(std::get<Unrolled>(how.how.gradient).measured) << "training pays for no report";
    penalised += how.penalised ? 1 : 0;
  }
  EXPECT_GT(penalised, 0);
  EXPECT_LT(penalised, 100);
}

/// Of training steps 0, 1, …
std::vector<int64_t> unrolled_steps(const Recipe& recipe, int64_t count) {
  std::vector<int64_t> steps;
  for (int64_t step = 0; step < count; ++step) {
    const auto how = std::get<Unrolled>(plan(recipe, step).how.gradient);
    EXPECT_LE(how.backpropagated, how.steps);
    EXPECT_FALSE(how.replayed) << "every number of steps would be a recording of its own";
    steps.push_back(how.steps);
  }
  return steps;
}

// n ~ Poisson(τ), E τ = r, ln τ of spread σ: the mean is r, the variance r + r² (e^σ² − 1).
TEST(StepPlan, UnrolledStepsAreDrawnAsAPoissonOfALogNormalMean) {
  Recipe recipe;
  recipe.seed = static_cast<int64_t>(test::seed() % 1000);
  SCOPED_TRACE(::testing::Message() << "DEQ_TEST_SEED=" << test::seed());
  constexpr int64_t kCount = 4000;
  for (const double spread : {0.25, 0.5}) {
    recipe.gradient = UnrolledGradient{{.steps = 32, .backpropagated = 8}, spread};
    const auto steps = unrolled_steps(recipe, kCount);
    double mean = 0, variance = 0, low_tail = 0;
    for (const auto n : steps) mean += static_cast<double>(n) / kCount;
    for (const auto n : steps) {
      variance += (static_cast<double>(n) - mean) * (static_cast<double>(n) - mean) / kCount;
      low_tail += static_cast<double>(n) < 32 ? 1.0 / kCount : 0;
    }
    const double expected = 32 + 32 * 32 * (std::exp(spread * spread) - 1);
    EXPECT_NEAR(mean, 32, 5 * std::sqrt(expected / kCount));
    EXPECT_NEAR(variance, expected, 0.15 * expected);
    EXPECT_GT(low_tail, 0.5) << "a log-normal number is mostly below its mean";
    EXPECT_EQ(unrolled_steps(recipe, 50), std::vector(steps.begin(), steps.begin() + 50));
  }
}

TEST(StepPlan, UnrolledStepsFollowFromSeedAndStepAndAreAtLeastOne) {
  Recipe recipe;
  recipe.gradient = UnrolledGradient{{.steps = 2, .backpropagated = 2}, 0.5};
  const auto first = unrolled_steps(recipe, 200);
  EXPECT_EQ(*std::ranges::min_element(first), 1);
  EXPECT_GT(*std::ranges::max_element(first), 4);
  recipe.seed = 1;
  EXPECT_NE(unrolled_steps(recipe, 200), first);
  recipe.gradient = UnrolledGradient{{.steps = 2, .backpropagated = 2}};
  for (int64_t step = 0; step < 20; ++step) {
    EXPECT_EQ(std::get<Unrolled>(plan(recipe, step).how.gradient).steps, 2);
  }
  recipe.train.pretrain = {.steps = 10, .layers = 7};
  recipe.gradient = UnrolledGradient{{.steps = 2, .backpropagated = 2}, 0.5};
  EXPECT_EQ(std::get<Unrolled>(plan(recipe, 9).how.gradient).steps, 7);
}

TEST(EvaluationBudget, IsASolversEvaluationsOrAnUnrolledLayersSteps) {
  const EquilibriumOptions solved{.forward = Anderson{.max_evals = 12}};
  EXPECT_EQ(max_evals(within_budget(solved, 5).forward), 5);
  const EquilibriumOptions unrolled{.gradient = Unrolled{.steps = 8, .backpropagated = 4}};
  for (const int64_t budget : {1, 4, 64}) {
    const auto how = std::get<Unrolled>(within_budget(unrolled, budget).gradient);
    EXPECT_EQ(how.steps, budget);
    EXPECT_EQ(how.backpropagated, std::min<int64_t>(budget, 4));
  }
}

TEST(StepPlan, StartsAreRandomOnceThereAreSolves) {
  Recipe recipe;
  recipe.train.pretrain.steps = 3;
  recipe.train.start_noise = 0.5;
  EXPECT_EQ(plan(recipe, 2).how.start_noise, 0);
  EXPECT_EQ(plan(recipe, 3).how.start_noise, 0.5);
}

TEST(StepPlan, ThePenaltyEndsAfterAnEpoch) {
  Recipe recipe;
  recipe.jacobian.gamma = {.shape = ConstantSchedule{.value = 1}};
  recipe.jacobian.stop_epoch = 3;
  EXPECT_TRUE(plan(recipe, 299).penalised);
  EXPECT_EQ(plan(recipe, 300).gamma, 0);
  EXPECT_FALSE(plan(recipe, 300).penalised);
}

TEST(StepPlan, TheCoinFallsAsOftenAsItShouldAndTheSameForEveryGamma) {
  Recipe recipe;
  recipe.jacobian.probability = {.shape = ConstantSchedule{.value = 0.3}};
  auto other = recipe;
  recipe.jacobian.gamma = {.shape = ConstantSchedule{.value = 1}};
  other.jacobian.gamma = {.shape = ConstantSchedule{.value = 4}};
  int heads = 0;
  for (int64_t step = 0; step < 1000; ++step) {
    heads += plan(recipe, step).penalised ? 1 : 0;
    EXPECT_EQ(plan(recipe, step).penalised, plan(other, step).penalised);
  }
  EXPECT_NEAR(heads, 300, 5 * std::sqrt(1000 * 0.3 * 0.7));
}

TEST(StepPlan, BudgetsVaryByAtMostDelta) {
  Recipe recipe;
  recipe.solver.forward = Anderson{.max_evals = 6};
  recipe.train.random_evals = {.low = -2, .high = 2};
  std::map<int64_t, int> seen;
  for (int64_t step = 0; step < 1000; ++step) ++seen[max_evals(plan(recipe, step).how.forward)];
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_EQ(seen.begin()->first, 4);
  for (const auto& [budget, times] : seen) EXPECT_NEAR(times, 200, 5 * std::sqrt(160.0));
  recipe.solver.forward = Anderson{.max_evals = 1};
  for (int64_t step = 0; step < 100; ++step) {
    EXPECT_GE(max_evals(plan(recipe, step).how.forward), 1);
  }
}

TEST(StepPlan, BudgetsOfPenalisedStepsAloneMayVary) {
  Recipe recipe;
  recipe.solver.forward = Broyden{.max_evals = 8};
  recipe.jacobian.gamma = {.shape = ConstantSchedule{.value = 1}};
  recipe.jacobian.probability = {.shape = ConstantSchedule{.value = 0.3}};
  recipe.train.random_evals = {.low = -2, .high = 1};
  recipe.train.random_evals_on = VariedSteps::Penalised;
  std::map<bool, std::set<int64_t>> seen;
  for (int64_t step = 0; step < 1000; ++step) {
    const auto planned = plan(recipe, step);
    seen[planned.penalised].insert(max_evals(planned.how.forward));
  }
  EXPECT_EQ(seen[false], std::set<int64_t>({8}));
  EXPECT_EQ(seen[true], std::set<int64_t>({6, 7, 8, 9}));
}

TEST(StepPlan, BudgetsFallAfterTheSwitch) {
  Recipe recipe;
  recipe.solver.forward = Broyden{.max_evals = 8};
  recipe.solver.adjoint = Broyden{.max_evals = 7};
  recipe.train.pretrain = {.steps = 10, .layers = 3};
  recipe.train.switching = {.steps = 4, .extra_evals = 8};
  std::vector<int64_t> forward, adjoint;
  for (int64_t step = 10; step < 16; ++step) {
    const auto how = plan(recipe, step).how;
    forward.push_back(max_evals(how.forward));
    adjoint.push_back(max_evals(std::get<Implicit>(how.gradient).solver));
  }
  EXPECT_EQ(forward, std::vector<int64_t>({16, 14, 12, 10, 8, 8}));
  EXPECT_EQ(adjoint, std::vector<int64_t>({15, 13, 11, 9, 7, 7}));
}

TEST(StepPlan, ABlendedSwitchUnrollsFewerAndFewerSteps) {
  Recipe recipe;
  recipe.solver.forward = Broyden{.max_evals = 8};
  recipe.jacobian.gamma = {.shape = ConstantSchedule{.value = 2}};
  recipe.train.pretrain = {.steps = 50, .layers = 3, .gamma = 0.5};
  recipe.train.switching = {.steps = 4000, .extra_evals = 4, .blended = true};
  std::array<int, 4> unrolled{};  // of every thousand steps of the switch
  for (int64_t step = 0; step < 5000; ++step) {
    const auto planned = plan(recipe, step);
    const auto* steps = std::get_if<Unrolled>(&planned.how.gradient);
    ASSERT_EQ(planned.pretraining, steps != nullptr) << step;
    EXPECT_EQ(planned.gamma, planned.pretraining ? 0.5 : 2.0) << step;
    const int64_t since = step - 50;
    if (since < 0 || since >= 4000) {
      EXPECT_EQ(planned.pretraining, since < 0) << step;
      continue;
    }
    if (steps == nullptr) {
      EXPECT_EQ(max_evals(planned.how.forward), 8 + (4 * (4000 - since) + 3999) / 4000) << step;
      continue;
    }
    EXPECT_EQ(steps->steps, 3);
    EXPECT_FALSE(steps->replayed);
    ++unrolled.at(static_cast<size_t>(since / 1000));
  }
  for (size_t quarter = 0; quarter < unrolled.size(); ++quarter) {
    const double share = 0.875 - 0.25 * static_cast<double>(quarter);
    EXPECT_NEAR(unrolled.at(quarter), 1000 * share, 5 * std::sqrt(1000 * share * (1 - share)));
  }
}

}  // namespace
}  // namespace deq::lab

#include "deq/nn/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deq/core/error.h"
#include "support/cells.h"
#include "support/seed.h"

// Warm starts along a stream, against solves that begin anew each time.

namespace deq {
namespace {

using test::f64;

/// f(z; x) = x ⊙ z + 1 for samples of one number, which diverges where |x| > 1. It remembers the
/// first state that each solve looked at.
struct ScalingCell : Cell {
  State initial_state(const Inputs& x) override { return {torch::zeros_like(x[0])}; }
  Context prepare(const Inputs& x) override {
    begins = true;
    return x;
  }
  State step(const State& z, const Context& x) override {
    if (begins) first = z[0].clone();
    begins = false;
    return {x[0] * z[0] + 1};
  }

  bool begins = true;
  torch::Tensor first;
};

class StreamTest : public test::Seeded {
 protected:
  StreamTest() : problem_(test::cell_problem(4, 6, 0.8, generator_)) {}

  static EquilibriumOptions tight() {
    return {.forward = Anderson{.tol = {.rtol = 1e-10}, .max_evals = 100}};
  }
  Equilibrium layer() const {
    Equilibrium made(problem_.cell, tight());
    made->eval();
    return made;
  }
  static Equilibrium scaling(const std::shared_ptr<ScalingCell>& cell, int64_t max_evals = 60) {
    Equilibrium made(cell, EquilibriumOptions{
                               .forward = Picard{.tol = {.rtol = 1e-10}, .max_evals = max_evals}});
    made->eval();
    return made;
  }
  /// The k-th picture of a slow video.
  torch::Tensor picture(int64_t k) const { return problem_.x + 1e-3 * static_cast<double>(k); }

  test::CellProblem problem_;
};

TEST_F(StreamTest, FindsTheSameEquilibriaInFewerEvaluations) {
  auto cold = layer();
  Stream stream(layer());
  int64_t cold_evaluations = 0;
  for (int64_t k = 0; k < 10; ++k) {
    const auto expected = cold->forward(picture(k));
    const auto found = stream.next(picture(k));
    EXPECT_TRUE(found.report.converged());
    EXPECT_LT(test::relative_difference(found.z(), expected.z()), 1e-8) << k;
    EXPECT_FALSE(found.z().requires_grad());
    cold_evaluations += expected.report.evaluations;
  }
  EXPECT_EQ(stream.cost().inputs, 10);
  EXPECT_EQ(stream.cost().warm, 9);
  EXPECT_LT(stream.cost().evaluations, 0.8 * static_cast<double>(cold_evaluations));
}

TEST_F(StreamTest, AnInputThatStaysCostsOneEvaluation) {
  Stream stream(layer());
  stream.next(problem_.x);
  EXPECT_EQ(stream.next(problem_.x).report.evaluations, 1);
}

TEST_F(StreamTest, SeveralStateTensorsAreKept) {
  test::PairCell cell(5, generator_);
  Equilibrium pair(cell, tight());
  pair->eval();
  Stream stream(pair);
  const auto x = torch::randn({3, 5}, generator_, f64());
  const auto first = stream.next(x);
  const auto again = stream.next(x);
  EXPECT_EQ(again.report.evaluations, 1);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(again.state[i].equal(first.state[i]));
}

TEST_F(StreamTest, BeginsAnewAfterAResetAndWhereInputsHaveAnotherForm) {
  const auto cell = std::make_shared<ScalingCell>();
  Stream stream(scaling(cell));
  const auto x = torch::full({2, 1}, 0.5, f64());
  const auto first_of = [&](const torch::Tensor& input) {
    stream.next(input);
    return cell->first.abs().max().item<double>();
  };
  EXPECT_EQ(first_of(x), 0);
  EXPECT_NEAR(first_of(x), 2, 1e-8);
  stream.reset();
  EXPECT_EQ(first_of(x), 0);
  EXPECT_EQ(first_of(torch::full({3, 1}, 0.5, f64())), 0) << "another batch";
  EXPECT_EQ(first_of(torch::full({3, 1}, 0.5)), 0) << "another type";
  EXPECT_NEAR(first_of(torch::full({3, 1}, 0.5)), 2, 1e-6);
  EXPECT_EQ(stream.cost().warm, 2);
  EXPECT_EQ(stream.cost().inputs, 6);
}

TEST_F(StreamTest, SamplesWhoseSolveFailedBeginAnewAndNoOthers) {
  const auto cell = std::make_shared<ScalingCell>();
  Stream stream(scaling(cell));
  const auto inputs = torch::tensor({{0.5}, {3.0}, {-0.5}}, f64());
  const auto failed = stream.next(inputs);
  ASSERT_EQ(failed.report.samples[1].status, Status::Diverged);
  const auto good = stream.next(torch::full({3, 1}, 0.5, f64()));
  EXPECT_TRUE(cell->first.allclose(torch::tensor({{2.0}, {0.0}, {2.0 / 3}}, f64())));
  EXPECT_TRUE(good.report.converged());
  stream.next(torch::full({3, 1}, 3.0, f64()));
  stream.next(inputs);
  EXPECT_EQ(cell->first.abs().max().item<double>(), 0) << "all had failed";
}

TEST_F(StreamTest, ASolveThatThrowsLeavesNothingToBeginAt) {
  const auto cell = std::make_shared<ScalingCell>();
  Equilibrium strict(
      cell, EquilibriumOptions{.forward = Picard{.max_evals = 60}, .on_failure = OnFailure::Throw});
  strict->eval();
  Stream stream(strict);
  const auto x = torch::full({1, 1}, 0.5, f64());
  stream.next(x);
  EXPECT_THROW(stream.next(torch::full({1, 1}, 3.0, f64())), ConvergenceError);
  stream.next(x);
  EXPECT_EQ(cell->first.item<double>(), 0);
}

TEST_F(StreamTest, ASpentBudgetIsGoneOnFrom) {
  const auto cell = std::make_shared<ScalingCell>();
  Stream stream(scaling(cell, /*max_evals=*/4));
  const auto x = torch::full({1, 1}, 0.9, f64());
  double last = 0;
  for (int64_t k = 0; k < 5; ++k) {
    const double residual = stream.next(x).report.max_absolute();
    // Each solve sees three iterates more than the one before, and each shrinks by 0.9.
    const double expected = k == 0 ? residual : std::pow(0.9, 3) * last;
    EXPECT_NEAR(residual, expected, 1e-9);
    last = residual;
  }
}

TEST_F(StreamTest, ComparisonsSayWhatIsSaved) {
  auto cold = layer();
  Stream stream(layer(), {.compare_every = 2});
  EXPECT_TRUE(std::isnan(stream.cost().saved()));
  int64_t warm_evaluations = 0, cold_evaluations = 0;
  for (int64_t k = 0; k < 7; ++k) {
    const auto evaluations = stream.next(picture(k)).report.evaluations;
    if (k == 0 || k % 2 == 1) continue;
    warm_evaluations += evaluations;
    cold_evaluations += cold->forward(picture(k)).report.evaluations;
  }
  EXPECT_EQ(stream.cost().compared, 3);
  EXPECT_EQ(stream.cost().compared_warm, warm_evaluations);
  EXPECT_EQ(stream.cost().compared_cold, cold_evaluations);
  EXPECT_DOUBLE_EQ(stream.cost().saved(), 1 - static_cast<double>(warm_evaluations) /
                                                  static_cast<double>(cold_evaluations));
}

TEST_F(StreamTest, MisuseIsSaidInOneSentence) {
  Stream stream(Equilibrium(problem_.cell, tight()));
  EXPECT_THAT([&] { stream.next(problem_.x); },
              ::testing::ThrowsMessage<Error>(::testing::StrEq(
                  "a stream is for use, not for training: call eval() on the layer, or on its "
                  "model")));
  EXPECT_THAT(
      [&] { Stream(layer(), {.compare_every = -1}); },
      ::testing::ThrowsMessage<Error>(::testing::StrEq("stream: compare_every = -1, must be ≥ 0")));
  EXPECT_THROW(Stream(Equilibrium(nullptr)), Error);
}

TEST_F(StreamTest, WhatIsWrittenToAResultDoesNotReachTheNextStart) {
  const torch::NoGradGuard no_grad;
  Stream stream(layer());
  const auto first = stream.next({picture(0)});
  first.state[0].zero_();
  EXPECT_LE(stream.next({picture(0)}).report.evaluations, 2);
}

// z* = 1/(1 − x) where x moves evenly: after two pictures the start is where the way leads.
TEST_F(StreamTest, MayFollowTheWayOfTheLastTwo) {
  const auto cell = std::make_shared<ScalingCell>();
  Stream stream(scaling(cell), {.extrapolate = 0.5});
  std::vector<torch::Tensor> states;
  for (const double x : {0.1, 0.2, 0.3}) {
    states.push_back(stream.next(torch::full({2, 1}, x, f64())).z());
  }
  EXPECT_TRUE(cell->first.equal(torch::lerp(states[0], states[1], 1.5)));
  // A sample that fails begins anew, and there is no way to follow for a picture.
  stream.next(torch::tensor({{0.4}, {3.0}}, f64()));
  const auto after = stream.next(torch::tensor({{0.4}, {0.4}}, f64())).z();
  EXPECT_EQ(cell->first[1].item<double>(), 0);
  const auto next = stream.next(torch::tensor({{0.5}, {0.5}}, f64())).z();
  EXPECT_TRUE(cell->first.equal(after));
  stream.next(torch::tensor({{0.6}, {0.6}}, f64()));
  EXPECT_TRUE(cell->first.equal(torch::lerp(after, next, 1.5)));
  stream.reset();
  stream.next(torch::tensor({{0.6}, {0.6}}, f64()));
  EXPECT_TRUE(cell->first.eq(0).all().item<bool>());
  EXPECT_THROW(Stream(layer(), {.extrapolate = 1.5}), Error);
}

}  // namespace
}  // namespace deq

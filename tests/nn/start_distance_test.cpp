#include "deq/nn/start_distance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/optim/adam.h>

#include "deq/core/error.h"
#include "support/cells.h"
#include "support/counted_recorders.h"
#include "support/differences.h"
#include "support/seed.h"

namespace deq {
namespace {

using test::f64;

constexpr int64_t kStartBatch = 3, kStartDim = 5;

/// A TanhCell whose solves begin at x Pᵀ.
struct PredictingCell : test::TanhCellImpl {
  PredictingCell(const torch::Tensor& w_value, const torch::Tensor& u_value)
      : TanhCellImpl(w_value, u_value),
        predictor(register_parameter("predictor", torch::zeros_like(w_value))) {}
  State initial_state(const Inputs& x) override { return {x[0].matmul(predictor.t())}; }

  torch::Tensor predictor;
};

/// A TanhCell whose solves begin anywhere.
struct DrawingCell : test::TanhCellImpl {
  using TanhCellImpl::TanhCellImpl;
  State initial_state(const Inputs& x) override { return {torch::randn_like(x[0])}; }
  bool start_may_change() const override { return true; }
};

class StartDistance : public test::Seeded {
 protected:
  StartDistance()
      : problem_(test::cell_problem(kStartBatch, kStartDim, 0.7, generator_)),
        layer_(problem_.cell, exact()) {}

  static EquilibriumOptions exact(const GradientOptions& gradient = Implicit{}) {
    return {.forward = Broyden{.tol = {.rtol = 1e-12}, .max_evals = 100}, .gradient = gradient};
  }
  torch::Tensor draw() { return torch::randn({kStartBatch, kStartDim}, generator_, f64()); }
  std::shared_ptr<PredictingCell> predicting() {
    auto cell =
        std::make_shared<PredictingCell>(problem_.cell->w.detach(), problem_.cell->u.detach());
    const torch::NoGradGuard no_grad;
    cell->predictor.normal_(0, 0.5, generator_);
    return cell;
  }
  /// The formula on plain tensors, where z* is known.
  torch::Tensor plain(const torch::Tensor& z) const {
    const auto& z_star = problem_.z_star;
    return (z - z_star).square().sum(1) / z_star.square().sum(1);
  }
  torch::Tensor step(const torch::Tensor& z) const {
    return torch::tanh(z.matmul(problem_.cell->w.t()) + problem_.x.matmul(problem_.cell->u.t()));
  }

  test::CellProblem problem_;
  Equilibrium layer_;
};

TEST_F(StartDistance, IsThatOfAGivenStartWithItsGradient) {
  const auto start = draw().requires_grad_();
  const auto eq = layer_->forward({problem_.x}, {.start = {start}});
  EXPECT_TRUE(eq.start()[0].is_same(start));
  const auto distance = start_distance(eq);
  ASSERT_EQ(distance.sizes(), (std::vector<int64_t>{kStartBatch}));
  EXPECT_LT(test::relative_difference(distance, plain(start)), 1e-9);
  const auto gradient = torch::autograd::grad({distance.sum()}, {start})[0];
  const auto expected =
      2 * (start.detach() - problem_.z_star) / problem_.z_star.square().sum(1, true);
  EXPECT_LT(test::relative_difference(gradient, expected), 1e-9);
}

TEST_F(StartDistance, TrainsTheStartAndNothingElse) {
  const auto cell = predicting();
  Equilibrium layer(cell, exact());
  const auto x = problem_.x.clone().requires_grad_();
  start_distance(layer->forward(x)).sum().backward();
  EXPECT_FALSE(cell->w.grad().defined());
  EXPECT_FALSE(cell->u.grad().defined());
  const auto numeric = test::numeric_gradient(
      [&] { return plain(problem_.x.matmul(cell->predictor.t())).sum().item<double>(); },
      cell->predictor.detach());
  EXPECT_LT(test::relative_difference(cell->predictor.grad(), numeric), 1e-8);
  EXPECT_TRUE(x.grad().defined()) << "what the start is predicted from";
}

TEST_F(StartDistance, ALossOfTheEquilibriumDoesNotReachTheStart) {
  for (const GradientOptions& gradient :
       {GradientOptions(Implicit{}), GradientOptions(Unrolled{.steps = 3}),
        GradientOptions(Reversible{.steps = 3}), GradientOptions(Phantom{})}) {
    const auto cell = predicting();
    Equilibrium layer(cell, exact(gradient));
    layer->forward(problem_.x).z().sum().backward();
    EXPECT_FALSE(cell->predictor.grad().defined()) << gradient_name(gradient);
    EXPECT_TRUE(cell->w.grad().defined()) << gradient_name(gradient);
  }
}

TEST_F(StartDistance, ABudgetOfOneEvaluationLeavesNoGraphOfTheStart) {
  const auto start = draw().requires_grad_();
  auto options = exact();
  options.forward = Picard{.max_evals = 1};
  options.one_more_step = false;
  const auto eq = Equilibrium(problem_.cell, options)->forward({problem_.x}, {.start = {start}});
  EXPECT_EQ(start_distance(eq).max().item<double>(), 0);
  EXPECT_FALSE(torch::autograd::grad({eq.z().sum()}, {start}, {}, {}, false, true)[0].defined());
}

TEST_F(StartDistance, OfACellsOwnStartIsOne) {
  const auto eq = layer_->forward(problem_.x);
  EXPECT_TRUE(torch::equal(start_distance(eq), torch::ones({kStartBatch}, f64())));
  // Nobody holds its memory: whoever asks gets another one.
  const auto one = eq.start(), other = eq.start();
  EXPECT_FALSE(one[0].is_alias_of(other[0]));
}

TEST_F(StartDistance, KnowsWhereNoiseLetTheSolveBegin) {
  auto options = exact();
  options.start_noise = 0.3;
  Equilibrium noisy(problem_.cell, options);
  torch::manual_seed(5);
  const auto eq = noisy->forward(problem_.x);
  torch::manual_seed(5);
  const auto noise = 0.3 * torch::randn({kStartBatch, kStartDim}, f64());
  EXPECT_LT(test::relative_difference(start_distance(eq), plain(noise)), 1e-9);
  // It is added to what is predicted, which learns all the same.
  const auto cell = predicting();
  Equilibrium both(cell, options);
  start_distance(both->forward(problem_.x)).sum().backward();
  EXPECT_GT(cell->predictor.grad().abs().max().item<double>(), 0);
}

TEST_F(StartDistance, KnowsWhereACellThatDrawsLetItBegin) {
  const auto cell =
      std::make_shared<DrawingCell>(problem_.cell->w.detach(), problem_.cell->u.detach());
  torch::manual_seed(5);
  const auto eq = Equilibrium(cell, exact())->forward(problem_.x);
  torch::manual_seed(5);
  EXPECT_TRUE(eq.start()[0].equal(torch::randn_like(problem_.x)));
  EXPECT_TRUE(eq.start()[0].is_same(eq.start()[0]));
}

// A start is kept with its graph, but a solve's graph does not lead to its start: passes from each
// other's equilibria, which nobody detached, are no chain in memory.
TEST_F(StartDistance, StartsThatAreNotDetachedKeepNoMoreThanOnePass) {
  auto twice = exact(Implicit{.twice = true});
  for (const auto& options :
       {exact(), twice, exact(Unrolled{.steps = 3}), exact(Phantom{}), exact(Reversible{})}) {
    for (const bool differentiated : {false, true}) {
      SCOPED_TRACE(std::string(gradient_name(options.gradient)) +
                   (differentiated ? ", with backward" : ""));
      Equilibrium layer(problem_.cell, options);
      std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> inputs;
      Equilibrated eq;
      for (int pass = 0; pass < 5; ++pass) {
        const auto x = problem_.x.clone().requires_grad_();
        inputs.emplace_back(x.getIntrusivePtr());
        eq = layer->forward({x}, {.start = eq.state});
        if (differentiated) eq.z().sum().backward();
      }
      EXPECT_FALSE(inputs[4].expired());
      for (const int pass : {0, 1, 2}) EXPECT_TRUE(inputs[pass].expired()) << pass;
    }
  }
}

TEST_F(StartDistance, OfSeveralStateTensorsIsOne) {
  test::PairCell cell(5, generator_);
  Equilibrium layer(cell, exact());
  const auto x = torch::randn({3, 5}, generator_, f64());
  const State start{torch::randn({3, 5}, generator_, f64()),
                    torch::randn({3, 2, 3}, generator_, f64())};
  const auto eq = layer->forward({x}, {.start = start});
  const auto flat = [](const State& z) { return torch::cat({z[0], z[1].flatten(1)}, 1).detach(); };
  const auto expected =
      (flat(start) - flat(eq.state)).square().sum(1) / flat(eq.state).square().sum(1);
  EXPECT_LT(test::relative_difference(start_distance(eq), expected), 1e-14);
  const auto stepped = flat(cell->step(start, {x}));
  EXPECT_LT(
      test::relative_difference(step_distance(eq), (stepped - flat(eq.state)).square().sum(1) /
                                                       flat(eq.state).square().sum(1)),
      1e-14);
}

TEST_F(StartDistance, OfAnEquilibriumAtZeroIsFinite) {
  const auto eq = layer_->forward(torch::zeros_like(problem_.x));
  ASSERT_EQ(eq.z().abs().max().item<double>(), 0);
  EXPECT_EQ(start_distance(eq).abs().max().item<double>(), 0);
}

class StepDistance : public StartDistance {};

TEST_F(StepDistance, IsThatOfOneStepFromTheStart) {
  const auto start = draw();
  const auto eq = layer_->forward({problem_.x}, {.start = {start}});
  EXPECT_LT(test::relative_difference(step_distance(eq), plain(step(start))), 1e-9);
  const auto other = draw();
  EXPECT_LT(test::relative_difference(step_distance(eq, {other}), plain(step(other))), 1e-9);
}

TEST_F(StepDistance, GradientsAreThoseOfDifferences) {
  const auto start = draw().requires_grad_();
  const auto x = problem_.x.clone().requires_grad_();
  const auto eq = layer_->forward({x}, {.start = {start}});
  const auto& cell = problem_.cell;
  const auto gradients =
      torch::autograd::grad({step_distance(eq).sum()}, {cell->w, cell->u, x, start});
  const auto from = start.detach();
  const auto loss = [&] { return plain(step(from)).sum().item<double>(); };
  const std::vector<torch::Tensor> variables{cell->w.detach(), cell->u.detach(), problem_.x, from};
  for (size_t i = 0; i < variables.size(); ++i) {
    const auto numeric = test::numeric_gradient(loss, variables[i]);
    EXPECT_LT(test::relative_difference(gradients[i], numeric), 1e-8) << "variable " << i;
  }
}

TEST_F(StepDistance, GoesWithTheLossInOneBackward) {
  const auto x = problem_.x.clone().requires_grad_();
  const auto& cell = problem_.cell;
  const auto gradient_of = [&](double of_loss, double of_distance) {
    const auto eq = layer_->forward(x);
    const auto loss = of_loss * eq.z().square().sum() + of_distance * step_distance(eq).sum();
    return torch::autograd::grad({loss}, {cell->w})[0];
  };
  const auto sum = gradient_of(1, 0) + 0.5 * gradient_of(0, 1);
  EXPECT_LT(test::relative_difference(gradient_of(1, 0.5), sum), 1e-9);
}

TEST_F(StepDistance, HasThePreparedContextOfTheSolve) {
  const auto before = problem_.cell->prepared.load();
  const auto eq = layer_->forward(problem_.x);
  const auto steps = problem_.cell->steps.load();
  step_distance(eq).sum().backward();
  EXPECT_EQ(problem_.cell->prepared, before + 1);
  EXPECT_EQ(problem_.cell->steps, steps + 1);
}

TEST_F(StepDistance, NeedsAPassThatWasEvaluatedOrIsInEvalMode) {
  const test::CountedRecorders recorders;
  Equilibrated eq;
  for (int pass = 0; pass < 3; ++pass) eq = layer_->forward(problem_.x);
  ASSERT_TRUE(eq.replayed());
  EXPECT_TRUE(torch::equal(start_distance(eq), torch::ones({kStartBatch}, f64())));
  EXPECT_THAT([&] { step_distance(eq); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("turn replay off")));
  layer_->eval();
  for (int pass = 0; pass < 3; ++pass) eq = layer_->forward(problem_.x);
  ASSERT_TRUE(eq.replayed());
  EXPECT_LT(
      test::relative_difference(step_distance(eq), plain(step(torch::zeros_like(problem_.x)))),
      1e-9);
}

TEST_F(StepDistance, MisuseIsNamed) {
  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  EXPECT_THAT([] { start_distance(Equilibrated()); },
              ThrowsMessage<Error>(HasSubstr("this equilibrium holds no solve")));
  EXPECT_THAT([] { Equilibrated().start(); },
              ThrowsMessage<Error>(HasSubstr("this equilibrium holds no solve")));
  EXPECT_THAT(
      [] {
        Equilibrated().stepped_from({torch::zeros({1, 1})});
      },
      ThrowsMessage<Error>(HasSubstr("this equilibrium holds no solve")));
  const auto eq = layer_->forward(problem_.x);
  EXPECT_THAT(
      [&] {
        step_distance(eq, {torch::zeros({3, 4}, f64())});
      },
      ThrowsMessage<Error>(HasSubstr("has shape [3, 4]")));
  EXPECT_THAT([&] { step_distance(eq, {torch::Tensor()}); },
              ThrowsMessage<Error>(HasSubstr("state 0 is an undefined tensor")));
}

// What it is for: equilibria that depend on x almost linearly, which a linear start learns.
TEST_F(StartDistance, TrainedStartsShortenSolves) {
  const auto cell = predicting();
  {
    const torch::NoGradGuard no_grad;
    cell->u.mul_(0.05);
    cell->predictor.zero_();
  }
  auto options = exact();
  options.forward = Picard{.tol = {.rtol = 1e-6}, .max_evals = 200};
  Equilibrium layer(cell, options);
  const auto inputs = torch::randn({64, kStartDim}, generator_, f64());
  const auto evaluations = [&] {
    const torch::NoGradGuard no_grad;
    return layer->forward(inputs).report.evaluations;
  };
  const auto before = evaluations();
  torch::optim::Adam optimiser({cell->predictor}, 0.02);
  for (int i = 0; i < 300; ++i) {
    optimiser.zero_grad();
    start_distance(layer->forward(inputs)).mean().backward();
    optimiser.step();
  }
  EXPECT_LT(evaluations(), before - 5) << "of " << before;
}

}  // namespace
}  // namespace deq

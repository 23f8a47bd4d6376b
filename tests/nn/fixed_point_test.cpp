#include "deq/nn/fixed_point.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "support/maps.h"
#include "support/seed.h"

namespace deq {
namespace {

using test::relative_difference;

constexpr int64_t kSize = 5;

const Broyden kExact{.tol = {.rtol = 1e-13}, .max_evals = 100};

class FixedPoint : public test::Seeded {
 protected:
  torch::Tensor draw(c10::IntArrayRef shape) {
    return torch::randn(shape, generator_, test::f64());
  }

  torch::Tensor w_ = (0.3 * draw({kSize, kSize})).requires_grad_();
  torch::Tensor x_ = draw({3, kSize}).requires_grad_();
  const EquilibriumOptions exact_{.forward = kExact, .gradient = Implicit{.solver = kExact}};
};

TEST_F(FixedPoint, OfALambdaWithGradientsToAllItUses) {
  const auto f = [&](const torch::Tensor& z) { return torch::tanh(z.matmul(w_) + x_); };
  const auto eq = fixed_point(f, torch::zeros_like(x_), exact_);
  EXPECT_TRUE(eq.report.converged()) << eq.report.brief();
  EXPECT_LT(relative_difference(f(eq.z().detach()), eq.z().detach()), 1e-12);

  auto unrolled = torch::zeros_like(x_);
  for (int k = 0; k < 400; ++k) unrolled = f(unrolled);
  const auto weights = draw({3, kSize});
  const auto gradients = torch::autograd::grad({(weights * eq.z()).sum()}, {w_, x_});
  const auto expected = torch::autograd::grad({(weights * unrolled).sum()}, {w_, x_});
  for (size_t i = 0; i < 2; ++i) EXPECT_LT(relative_difference(gradients[i], expected[i]), 1e-9);
}

TEST_F(FixedPoint, OfAListOfStates) {
  const std::function<State(const State&)> f = [&](const State& z) -> State {
    return {torch::tanh(z[1].matmul(w_) + x_), 0.5 * z[0]};
  };
  const auto zero = torch::zeros_like(x_);
  const auto eq = fixed_point(f, State{zero, zero}, exact_);
  ASSERT_EQ(eq.state.size(), 2U);
  EXPECT_LT(relative_difference(eq.state[1], 0.5 * eq.state[0]), 1e-11);
  eq.state[0].sum().backward();
  EXPECT_TRUE(w_.grad().defined() && x_.grad().defined());
}

TEST_F(FixedPoint, MisuseIsNamed) {
  const auto shrinks = [](const torch::Tensor& z) { return z.narrow(1, 0, 2); };
  EXPECT_THROW(fixed_point(shrinks, torch::zeros_like(x_)), Error);
  EXPECT_THROW(
      fixed_point(std::function<State(const State&)>([](const State& z) { return z; }), State{}),
      Error);
}

TEST_F(FixedPoint, FailureIsReportedOrThrown) {
  const auto runs_away = [&](const torch::Tensor& z) { return 3 * z + x_; };
  EquilibriumOptions options{.forward = Picard{.max_evals = 5}};
  EXPECT_EQ(fixed_point(runs_away, torch::zeros_like(x_), options).report.status,
            Status::MaxEvaluations);
  options.on_failure = OnFailure::Throw;
  try {
    fixed_point(runs_away, torch::zeros_like(x_), options);
    FAIL() << "it did not throw";
  } catch (const ConvergenceError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("the forward solve failed: ", 0), 0U) << error.what();
  }
}

TEST_F(FixedPoint, AFailedAdjointIsThrownInBackward) {
  // Exact at once going forward, and too few products to come back.
  const auto f = [&](const torch::Tensor& z) { return torch::tanh(z.matmul(w_) + x_); };
  const EquilibriumOptions options{
      .forward = kExact,
      .gradient = Implicit{.solver = Picard{.tol = {.rtol = 1e-12}, .max_evals = 2}},
      .on_failure = OnFailure::Throw};
  const auto eq = fixed_point(f, torch::zeros_like(x_), options);
  EXPECT_THROW(eq.z().sum().backward(), ConvergenceError);
}

}  // namespace
}  // namespace deq

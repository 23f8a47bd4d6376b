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

TEST_F(FixedPoint, AnFThatWritesIntoItsStateIsRefused) {
  const auto f = [](const torch::Tensor& z) {
    auto own = z;
    return own.mul_(0.5).add_(1);
  };
  const torch::NoGradGuard no_grad;
  const auto start = torch::ones({2, 3}, test::f64());
  for (const GradientOptions& gradient :
       {GradientOptions(Implicit{}), GradientOptions(Unrolled{}), GradientOptions(Reversible{})}) {
    try {
      fixed_point(f, start, {.gradient = gradient});
      ADD_FAILURE() << gradient_name(gradient) << " took it";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("written into its state"), std::string::npos);
    }
  }
}

// h has a history of its own, and hooks on it run once for a gradient.
TEST_F(FixedPoint, GradientsReachWhatWasCapturedWithAHistory) {
  const auto u = (0.5 * draw({kSize, kSize})).requires_grad_();
  const auto weights = draw({3, kSize});
  std::vector<torch::Tensor> expected;
  for (const GradientOptions& gradient :
       {GradientOptions(Implicit{.solver = kExact}), GradientOptions(Unrolled{.steps = 80}),
        GradientOptions(Implicit{.solver = kExact, .twice = true}),
        GradientOptions(Reversible{.steps = 40})}) {
    SCOPED_TRACE(gradient_name(gradient));
    const bool twice =
        std::holds_alternative<Implicit>(gradient) && std::get<Implicit>(gradient).twice;
    auto before = x_.matmul(u);
    int64_t calls = 0;
    const auto h = before * 2;  // the hook belongs to what comes before it
    before.register_hook([&calls](const torch::Tensor& g) {
      ++calls;
      return g;
    });
    const auto f = [&](const torch::Tensor& z) { return torch::tanh(z.matmul(w_) + h); };
    const auto eq =
        fixed_point(f, torch::zeros_like(x_), {.forward = kExact, .gradient = gradient});
    const auto found =
        torch::autograd::grad({(weights * eq.z()).sum()}, {h, w_, u, x_}, {}, true, twice);
    if (expected.empty()) expected = found;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LT(relative_difference(found[i].detach(), expected[i]), 1e-7) << i;
    }
    EXPECT_EQ(calls, 1);
    if (!twice) continue;
    // And the second derivatives, those of many unrolled steps.
    auto unrolled = torch::zeros_like(x_);
    for (int k = 0; k < 200; ++k) unrolled = f(unrolled);
    const auto by_steps =
        torch::autograd::grad({(weights * unrolled).sum()}, {h, u}, {}, true, true);
    const auto second = torch::autograd::grad({found[0].square().sum() + found[2].square().sum()},
                                              {w_, u, x_}, {}, true);
    const auto wanted = torch::autograd::grad(
        {by_steps[0].square().sum() + by_steps[1].square().sum()}, {w_, u, x_}, {}, true);
    for (size_t i = 0; i < second.size(); ++i) {
      EXPECT_LT(relative_difference(second[i], wanted[i]), 1e-7) << "second, " << i;
    }
  }
}

TEST_F(FixedPoint, WithoutAnythingThatWantsAGradientThereIsNone) {
  const auto w = w_.detach(), x = x_.detach();
  const auto f = [&](const torch::Tensor& z) { return torch::tanh(z.matmul(w) + x); };
  for (const bool twice : {false, true}) {
    const auto eq =
        fixed_point(f, torch::zeros_like(x),
                    {.forward = kExact, .gradient = Implicit{.solver = kExact, .twice = twice}});
    EXPECT_FALSE(eq.z().requires_grad());
    EXPECT_LT(relative_difference(f(eq.z()), eq.z()), 1e-12);
  }
}

TEST_F(FixedPoint, OtherParametersOnTheWayBackAreRefused) {
  auto used = w_;
  const auto f = [&used, this](const torch::Tensor& z) {
    return torch::tanh(z.matmul(used) + x_.detach());
  };
  const auto eq = fixed_point(f, torch::zeros_like(x_), {.gradient = Reversible{.steps = 4}});
  used = (0.3 * draw({kSize, kSize})).requires_grad_();
  EXPECT_THROW(eq.z().sum().backward(), Error);
}

// As a ReLU in place after the layer does it.
TEST_F(FixedPoint, AResultIsWrittenToAsAnyOther) {
  const auto forgets = [&](const torch::Tensor& z) { return z.matmul(w_) + x_; };
  auto z = fixed_point(forgets, torch::zeros_like(x_), exact_).z();
  const auto expected = torch::autograd::grad({z.relu().sum()}, {w_, x_}, {}, true);
  const auto found = torch::autograd::grad({torch::relu_(z).sum()}, {w_, x_});
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(found[i].equal(expected[i]));
  // Where f's own gradient needs what was there, torch says so.
  const auto keeps = [&](const torch::Tensor& at) { return torch::tanh(at.matmul(w_) + x_); };
  auto kept = fixed_point(keeps, torch::zeros_like(x_), exact_).z();
  kept.mul_(2);
  EXPECT_THROW(kept.sum().backward(), c10::Error);
}

}  // namespace
}  // namespace deq

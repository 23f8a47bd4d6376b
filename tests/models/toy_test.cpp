#include "deq/models/toy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/jacobian/spectrum.h"
#include "deq/nn/equilibrium.h"
#include "support/differences.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;

class Toy : public test::Seeded {
 protected:
  Toy() : cell_(ToyOptions{}, generator_) { cell_->to(torch::kFloat64); }
  torch::Tensor parameter(const std::string& name) { return cell_->named_parameters()[name]; }

  ToyCell cell_;
};

TEST_F(Toy, HasThePapersTwoHundredParameters) {
  int64_t count = 0;
  for (const auto& tensor : cell_->parameters()) count += tensor.numel();
  EXPECT_EQ(count, 200);
  EXPECT_EQ(parameter("w1").sizes(), (std::vector<int64_t>{50, 1}));
  EXPECT_EQ(parameter("b").sizes(), (std::vector<int64_t>{50}));
}

TEST_F(Toy, IsThePapersFormula) {
  // f(z; x) = W₂ᵀ ReLU(W₁ z + U x + b), one sample and one hidden unit at a time.
  const auto x = torch::linspace(-2, 2, 9, f64()).view({9, 1});
  const auto z = torch::linspace(3, -4, 9, f64()).view({9, 1});
  const auto value = cell_->step({z}, cell_->prepare({x}))[0];
  ASSERT_EQ(value.sizes(), z.sizes());
  const auto get = [&](const char* name, int64_t i) {
    return parameter(name).view(-1)[i].item<double>();
  };
  for (int64_t n = 0; n < 9; ++n) {
    double sum = 0;
    for (int64_t i = 0; i < 50; ++i) {
      const double inner =
          get("w1", i) * z[n].item<double>() + get("u", i) * x[n].item<double>() + get("b", i);
      sum += get("w2", i) * std::max(inner, 0.0);
    }
    EXPECT_NEAR(value[n].item<double>(), sum, 1e-12);
  }
}

TEST_F(Toy, StepsLeaveTheContextAlone) {
  // The same context serves every step of a solve.
  const auto context = cell_->prepare({torch::linspace(-2, 2, 5, f64()).view({5, 1})});
  const auto copy = context[0].clone();
  cell_->step({torch::ones({5, 1}, f64())}, context);
  EXPECT_TRUE(context[0].equal(copy));
}

TEST_F(Toy, KinksLieOverTheInputs) {
  const auto kinks = -parameter("b") / parameter("u").squeeze(1);
  EXPECT_GE(kinks.min().item<double>(), -2.0 - 1e-6);
  EXPECT_LE(kinks.max().item<double>(), 2.0 + 1e-6);
  const ToyCell narrow(ToyOptions{.hidden = 30, .x_min = 0.5, .x_max = 0.75}, generator_);
  const auto parameters = narrow->named_parameters();
  const auto own = -parameters["b"] / parameters["u"].squeeze(1);
  EXPECT_GE(own.min().item<double>(), 0.5 - 1e-6);
  EXPECT_LE(own.max().item<double>(), 0.75 + 1e-6);
}

TEST_F(Toy, StartsContractingOnAverage) {
  const auto x = torch::linspace(-2, 2, 100, f64()).view({100, 1});
  for (uint64_t stream = 0; stream < 10; ++stream) {
    ToyCell cell(ToyOptions{}, test::generator(stream));
    cell->to(torch::kFloat64);
    Equilibrium layer(cell, EquilibriumOptions{.forward = Broyden{.max_evals = 60}});
    const auto eq = layer->forward(x);
    EXPECT_GE(eq.report.count(Status::Converged), 90) << stream << ": " << eq.report.brief();
    EXPECT_LT(dense_jacobian(eq.linearization()).abs().mean().item<double>(), 1.0) << stream;
  }
}

TEST_F(Toy, GradientsMatchDifferences) {
  {
    const torch::NoGradGuard no_grad;
    parameter("w1").mul_(0.5);  // away from a slope of 1, where z* itself is ill-conditioned
  }
  const SolverOptions tight = Broyden{.tol = {.rtol = 1e-14}, .max_evals = 100};
  Equilibrium layer(cell_, EquilibriumOptions{.forward = tight, .gradient = Implicit{tight}});
  const auto x = torch::linspace(-1.9, 1.7, 7, f64()).view({7, 1});
  const auto value = [&] {
    const torch::NoGradGuard no_grad;
    return layer->forward(x).z().square().mean().item<double>();
  };
  layer->forward(x).z().square().mean().backward();
  for (const auto& item : cell_->named_parameters()) {
    // Piecewise smooth: a spacing small enough to stay on one side of every kink.
    const auto expected = test::numeric_gradient(value, item.value(), 1e-6);
    EXPECT_LT(test::relative_difference(item.value().grad(), expected), 1e-6) << item.key();
  }
}

TEST_F(Toy, TheGeneratorDecidesTheStart) {
  const auto weights = [](uint64_t stream) {
    return ToyCell(ToyOptions{}, test::generator(stream))->named_parameters()["w1"].detach();
  };
  EXPECT_TRUE(weights(1).equal(weights(1)));
  EXPECT_FALSE(weights(1).equal(weights(2)));
}

TEST_F(Toy, OptionsAreValidated) {
  using ::testing::HasSubstr;
  EXPECT_THAT([] { ToyCell(ToyOptions{.hidden = 0}); },
              ::testing::ThrowsMessage<Error>(HasSubstr("hidden = 0, must be ≥ 1")));
  EXPECT_THAT([] { ToyCell(ToyOptions{.x_min = 1, .x_max = 1}); },
              ::testing::ThrowsMessage<Error>(HasSubstr("x_min = 1 must be below x_max = 1")));
}

}  // namespace
}  // namespace deq::models

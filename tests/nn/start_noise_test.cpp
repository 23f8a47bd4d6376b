#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "deq/core/error.h"
#include "deq/nn/equilibrium.h"
#include "support/cells.h"
#include "support/seed.h"

// Random starts in training.

namespace deq {
namespace {

using test::f64;

constexpr double kSigma = 0.3;

class StartNoise : public test::Seeded {
 protected:
  StartNoise() : problem_(test::cell_problem(3, 5, 0.7, generator_)) {}

  Equilibrium layer(double sigma, const GradientOptions& gradient = Implicit{}) const {
    return Equilibrium(problem_.cell, EquilibriumOptions{.forward = Broyden{.tol = {.rtol = 1e-11},
                                                                            .max_evals = 100},
                                                         .gradient = gradient,
                                                         .start_noise = sigma});
  }
  /// Where a pass begins, with torch's generator seeded before it.
  torch::Tensor start_of(Equilibrium& layer, const State& given = {}) const {
    torch::manual_seed(5);
    torch::Tensor start;
    layer->forward({problem_.x}, {.start = given, .callback = [&](const Progress& progress) {
                                    if (!start.defined()) start = progress.z.clone();
                                    return true;
                                  }});
    return start;
  }
  torch::Tensor numbers() const {
    torch::manual_seed(5);
    return torch::randn({3, 5}, f64());
  }

  test::CellProblem problem_;
};

TEST_F(StartNoise, IsAddedToTheCellsOwnStart) {
  auto noisy = layer(kSigma);
  EXPECT_TRUE(start_of(noisy).equal(kSigma * numbers()));
  EXPECT_LT(test::relative_difference(noisy->forward(problem_.x).z(), problem_.z_star), 1e-9);
}

TEST_F(StartNoise, IsNoneByDefaultAndDrawsNothing) {
  auto plain = layer(0);
  EXPECT_EQ(start_of(plain).abs().max().item<double>(), 0);
  EXPECT_TRUE(torch::randn({3, 5}, f64()).equal(numbers()));
}

TEST_F(StartNoise, IsNoneInEvalModeAndOfAStartThatIsGiven) {
  auto noisy = layer(kSigma);
  const auto given = torch::full({3, 5}, 0.1, f64());
  EXPECT_TRUE(start_of(noisy, {given}).equal(given));
  noisy->eval();
  EXPECT_EQ(start_of(noisy).abs().max().item<double>(), 0);
}

TEST_F(StartNoise, UnrolledStepsHaveNone) {
  const auto unrolled = [&](double sigma) {
    return layer(sigma, Unrolled{.steps = 2})->forward(problem_.x).z();
  };
  EXPECT_TRUE(unrolled(kSigma).equal(unrolled(0)));
}

TEST_F(StartNoise, GradientsAreThoseOfTheEquilibrium) {
  const auto gradient = [&](double sigma) {
    const auto x = problem_.x.clone().requires_grad_();
    auto exact = layer(sigma, Implicit{.solver = Broyden{.tol = {.rtol = 1e-11}, .max_evals = 60}});
    exact->forward(x).z().square().sum().backward();
    return x.grad();
  };
  EXPECT_LT(test::relative_difference(gradient(kSigma), gradient(0)), 1e-8);
}

TEST_F(StartNoise, IsValidated) {
  EXPECT_THAT([&] { layer(-0.5); }, ::testing::ThrowsMessage<Error>(
                                        ::testing::StrEq("start_noise is -0.5, must be ≥ 0")));
  EXPECT_THROW(layer(std::numeric_limits<double>::quiet_NaN()), Error);
}

}  // namespace
}  // namespace deq

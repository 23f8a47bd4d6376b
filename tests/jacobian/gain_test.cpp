#include "deq/jacobian/gain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>

#include "deq/core/error.h"
#include "jacobian/probes.h"
#include "support/differences.h"
#include "support/maps.h"
#include "support/seed.h"

// The squared gain after power steps, against dense matrices.

namespace deq {
namespace {

using test::f64;

constexpr int64_t kGainDim = 6;

class Gain : public test::Seeded {
 protected:
  /// The linearisation whose J is the given one for every sample.
  static Linearization copies(const torch::Tensor& j, int64_t count) {
    const auto zero = torch::zeros({count, j.size(0)}, j.options());
    return test::linearize(test::AffineMap{j, zero}, zero);
  }
  static torch::Tensor gains(const torch::Tensor& j, int64_t steps, int64_t count = 40) {
    return squared_gain(copies(j, count), {.steps = steps}, ProbeKey{.key = 3});
  }
  static double largest_singular_value(const torch::Tensor& j) {
    return torch::linalg_matrix_norm(j, 2).item<double>();
  }
  /// Normal, with the given eigenvalues.
  torch::Tensor normal_matrix(const std::vector<double>& eigenvalues) {
    const auto q = test::orthogonal(static_cast<int64_t>(eigenvalues.size()), generator_);
    return q.mm(torch::diag(torch::tensor(eigenvalues, f64()))).mm(q.t());
  }
  /// A matrix with a complex pair in front of the rest: similar to diag(pair, 0.1, …), far from
  /// normal unless the basis is orthogonal.
  torch::Tensor with_pair(double radius, double angle, const torch::Tensor& basis) {
    auto blocks = 0.1 * torch::eye(basis.size(0), f64());
    blocks.narrow(0, 0, 2).narrow(1, 0, 2).copy_(test::rotation(angle, radius));
    return basis.mm(blocks).mm(torch::linalg_inv(basis));
  }
};

TEST_F(Gain, IsTheFormula) {
  const auto j = torch::randn({kGainDim, kGainDim}, generator_, f64());
  const auto at = copies(j, 9);
  for (const int64_t steps : {0, 1, 4}) {
    const auto gain = squared_gain(at, {.steps = steps}, ProbeKey{.key = 5});
    // The estimate of ‖Jᵏ‖²_F by one probe is ‖εJᵏ‖², with the same ε for the same key.
    const auto power = [&](int64_t k) {
      return frobenius_squared(copies(torch::matrix_power(j, k), 9), {}, ProbeKey{.key = 5});
    };
    EXPECT_LT(test::relative_difference(gain, power(steps + 1) / power(steps)), 1e-11) << steps;
  }
}

TEST_F(Gain, WithoutStepsItsMeanIsTheMeanSquaredSingularValue) {
  const auto j = torch::randn({kGainDim, kGainDim}, generator_, f64());
  for (const auto distribution : {ProbeDistribution::Gaussian, ProbeDistribution::Rademacher}) {
    const auto values = squared_gain(
        copies(j, 20000), {.steps = 0, .start = {.distribution = distribution}}, generator_);
    const double standard_error = values.std().item<double>() / std::sqrt(20000.0);
    EXPECT_NEAR(values.mean().item<double>(), j.square().sum().item<double>() / kGainDim,
                5 * standard_error);
  }
}

TEST_F(Gain, OfANormalMatrixRisesToTheSquaredRadius) {
  const auto j = normal_matrix({0.9, -0.7, 0.5, 0.3, -0.2, 0.1});
  auto before = gains(j, 0);
  for (const int64_t steps : {1, 2, 3, 5, 10, 20}) {
    const auto now = gains(j, steps);
    EXPECT_TRUE((now >= before - 1e-14).all().item<bool>()) << steps;
    before = now;
  }
  EXPECT_LT(test::relative_difference(gains(j, 80), torch::full({40}, 0.81, f64())), 1e-12);
}

TEST_F(Gain, OfARealDominantEigenvalueGoesToItsSquareHoweverFarFromNormal) {
  const auto j = test::matrix_with_eigenvalues({-0.8, 0.5, 0.4, 0.3, 0.2, 0.1}, generator_);
  ASSERT_GT(largest_singular_value(j), 0.9);  // far from normal, so that this says something
  EXPECT_LT(test::relative_difference(gains(j, 150), torch::full({40}, 0.64, f64())), 1e-11);
}

TEST_F(Gain, OfAComplexPairOfANormalMatrixGoesToTheSquaredRadius) {
  const auto j = with_pair(0.9, 1.0, test::orthogonal(kGainDim, generator_));
  EXPECT_LT(test::relative_difference(gains(j, 60), torch::full({40}, 0.81, f64())), 1e-12);
}

TEST_F(Gain, OfAnotherComplexPairMovesBetweenItsPlanesStretchesWithMeanTheSquaredRadius) {
  auto basis = torch::eye(kGainDim, f64());
  basis[0][0] = 3;  // the pair turns along an ellipse
  const auto q = test::orthogonal(kGainDim, generator_);
  const double radius = 0.9;
  const auto j = with_pair(radius, 1.0, q.mm(basis));
  // On the pair's plane J is S R S⁻¹ with S = diag(3, 1): its singular values bound the gain.
  const auto s = torch::diag(torch::tensor({3.0, 1.0}, f64()));
  const auto plane = s.mm(test::rotation(1.0, radius)).mm(torch::linalg_inv(s));
  const auto stretches = torch::linalg_svdvals(plane);
  const double low = stretches[1].square().item<double>();
  const double high = stretches[0].square().item<double>();
  ASSERT_GT(high, 1.5 * radius * radius);
  auto logarithms = torch::zeros({}, f64());
  double least = 1e9, most = 0;
  constexpr int64_t kFrom = 40, kSteps = 100;
  for (int64_t k = kFrom; k < kFrom + kSteps; ++k) {
    const auto now = gains(j, k, 1);
    logarithms += now.log().squeeze();
    least = std::min(least, now.item<double>());
    most = std::max(most, now.item<double>());
  }
  EXPECT_GE(least, low * (1 - 1e-9));
  EXPECT_LE(most, high * (1 + 1e-9));
  EXPECT_GT(most, 1.5 * least) << "it does not converge";
  // The sum telescopes: what is left is a bounded term over the number of steps.
  const double mean = logarithms.item<double>() / kSteps;
  EXPECT_NEAR(mean, std::log(radius * radius), 2 * std::log(9.0) / kSteps);
}

TEST_F(Gain, NeverExceedsTheSpectralNorm) {
  for (int round = 0; round < 20; ++round) {
    const auto j = torch::randn({kGainDim, kGainDim}, generator_, f64());
    const double bound = std::pow(largest_singular_value(j), 2);
    for (const int64_t steps : {0, 1, 3, 9}) {
      EXPECT_LE(gains(j, steps).max().item<double>(), bound * (1 + 1e-12));
    }
  }
}

TEST_F(Gain, OfZeroAndOfNilpotentMatricesIsZeroWithAZeroGradient) {
  auto shift = torch::zeros({kGainDim, kGainDim}, f64());
  for (int64_t i = 0; i + 1 < kGainDim; ++i) shift[i][i + 1] = 1;  // its kGainDim-th power is 0
  for (const auto& value : {torch::zeros({kGainDim, kGainDim}, f64()), shift}) {
    const auto j = value.clone().requires_grad_();
    const auto at = test::linearize([&](const torch::Tensor& z) { return z.mm(j.t()); },
                                    torch::zeros({4, kGainDim}, f64()));
    const auto penalty =
        spectral_penalty(at, {.steps = kGainDim, .start = {.probes = 2}}, ProbeKey{.key = 1});
    EXPECT_EQ(penalty.item<double>(), 0);
    EXPECT_EQ(torch::autograd::grad({penalty}, {j})[0].abs().max().item<double>(), 0);
  }
}

TEST_F(Gain, SurvivesJacobiansWhosePowersLeaveTheNumbersRange) {
  for (const double size : {1e-20, 1e20}) {
    const auto j = (size * normal_matrix({0.9, -0.7, 0.5, 0.3, -0.2, 0.1}));
    const auto gain = gains(j, 60) / (size * size);
    EXPECT_LT(test::relative_difference(gain, torch::full({40}, 0.81, f64())), 1e-9);
  }
}

TEST_F(Gain, GradientIsThatOfDifferencesWithTheProbeHeld) {
  auto problem = test::tanh_problem(3, kGainDim, 0.9, generator_);
  const auto w = problem.map.w.clone().requires_grad_();
  const ProbeKey key{.key = 11};
  for (const int64_t steps : {0, 1, 3}) {
    const auto at = test::linearize(test::TanhMap{w, problem.map.x}, problem.z_star);
    const auto penalty = spectral_penalty(at, {.steps = steps}, key);
    const auto gradient = torch::autograd::grad({penalty}, {w})[0];
    auto v = draw_probe(problem.z_star, ProbeDistribution::Gaussian, key, 0).unsqueeze(1);
    for (int64_t k = 0; k < steps; ++k) v = v.matmul(problem.map.jacobian(problem.z_star));
    v = v / v.norm(2, {2}, /*keepdim=*/true);
    const auto held = [&] {
      return v.matmul(problem.map.jacobian(problem.z_star)).square().sum(2).mean().item<double>();
    };
    EXPECT_NEAR(penalty.item<double>(), held(), 1e-13);
    EXPECT_LT(test::relative_difference(gradient, test::numeric_gradient(held, problem.map.w)),
              1e-9)
        << steps;
  }
}

TEST_F(Gain, GradientAtALimitFollowsTheLeftEigenvectorAndDescendsTheRadius) {
  // With the unit left eigenvector w and the right one r the penalty's gradient is 2λ wᵀw, that of
  // λ² is 2λ wᵀrᵀ/(wr): their product is 4λ², whatever the angle between w and r.
  const auto value = test::matrix_with_eigenvalues({0.8, 0.5, 0.4, 0.3, 0.2, 0.1}, generator_);
  const auto j = value.clone().requires_grad_();
  const auto at = test::linearize([&](const torch::Tensor& z) { return z.mm(j.t()); },
                                  torch::zeros({1, kGainDim}, f64()));
  const auto penalty = spectral_penalty(at, {.steps = 150}, ProbeKey{.key = 2});
  const auto gradient = torch::autograd::grad({penalty}, {j})[0];
  auto changed = value.clone();
  const auto squared_radius = [&] {
    return test::dense_radius(changed.unsqueeze(0)).square().item<double>();
  };
  const auto of_radius = test::numeric_gradient(squared_radius, changed);
  EXPECT_NEAR((gradient * of_radius).sum().item<double>(), 4 * 0.64, 1e-6);
  EXPECT_NEAR(gradient.norm().item<double>(), 2 * 0.8, 1e-9);
  EXPECT_GT(of_radius.norm().item<double>(), 1.05 * 2 * 0.8) << "far from normal";
}

TEST_F(Gain, ASplitBatchMeetsTheProbesOfTheWhole) {
  const auto j = torch::randn({kGainDim, kGainDim}, generator_, f64());
  const PowerProbes options{.steps = 2, .start = {.probes = 3}};
  const auto whole = squared_gain(copies(j, 11), options, ProbeKey{.key = 7});
  int64_t first = 0;
  for (const int64_t count : {1, 4, 6}) {
    const auto part = squared_gain(copies(j, count), options, ProbeKey{7, first});
    // Products of other batch sizes may round otherwise.
    EXPECT_LT(test::relative_difference(part, whole.narrow(0, first, count)), 1e-13) << first;
    first += count;
  }
  const auto penalty = spectral_penalty(copies(j, 11), options, ProbeKey{.key = 7});
  EXPECT_NEAR(penalty.item<double>(), whole.mean().item<double>(), 1e-13);
}

TEST_F(Gain, ManyProbesAreTheMeanOfEach) {
  const auto j = torch::randn({kGainDim, kGainDim}, generator_, f64());
  const auto at = copies(j, 3);
  const ProbeKey key{.key = 7};
  auto expected = torch::zeros({3}, f64());
  for (int64_t m = 0; m < 4; ++m) {
    const auto v = draw_probe(at.z(), ProbeDistribution::Gaussian, key, m).mm(j);
    expected += v.mm(j).square().sum(1) / v.square().sum(1) / 4;
  }
  EXPECT_LT(test::relative_difference(squared_gain(at, {.steps = 1, .start = {.probes = 4}}, key),
                                      expected),
            1e-13);
}

TEST_F(Gain, TheGeneratorDecides) {
  const auto j = torch::randn({kGainDim, kGainDim}, generator_, f64());
  const auto draw = [&](uint64_t stream) {
    return spectral_penalty(copies(j, 3), {}, test::generator(stream)).item<double>();
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST_F(Gain, OptionsAreValidated) {
  EXPECT_THAT(
      [] { validate(PowerProbes{.steps = -1}); },
      ::testing::ThrowsMessage<Error>(::testing::StrEq("power probes: steps = -1, must be ≥ 0")));
  EXPECT_THROW(validate(PowerProbes{.start = {.probes = 0}}), Error);
}

}  // namespace
}  // namespace deq

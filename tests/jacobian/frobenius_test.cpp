#include "deq/jacobian/frobenius.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>

#include "deq/core/error.h"
#include "deq/jacobian/spectrum.h"
#include "support/maps.h"
#include "support/seed.h"

// Hutchinson's estimator. A batch of copies of one sample gives as many independent estimates at
// once.

namespace deq {
namespace {

using test::f64;

constexpr int64_t kCopies = 20000, kDim = 5;

double variance(const torch::Tensor& v) {
  return v.var().item<double>();
}

class Frobenius : public test::SeededWith<ProbeDistribution> {
 protected:
  Frobenius()
      : a_(torch::randn({kDim, kDim}, generator_, f64())),
        truth_(a_.square().sum().item<double>()) {}

  Linearization copies(int64_t count = kCopies) const {
    return test::linearize(test::AffineMap{a_, torch::zeros({1, kDim}, f64())},
                           torch::zeros({count, kDim}, f64()));
  }
  torch::Tensor estimates(int64_t probes, int64_t count = kCopies) {
    return frobenius_squared(copies(count), {.probes = probes, .distribution = GetParam()},
                             generator_);
  }
  /// Var ‖εᵀJ‖² for one probe, with A = JJᵀ: 2‖A‖²_F, less the diagonal for ±1.
  double theoretical_variance() const {
    const auto square = a_.mm(a_.t());
    const double all = square.square().sum().item<double>();
    const double diagonal = square.diagonal().square().sum().item<double>();
    return 2 * (GetParam() == ProbeDistribution::Gaussian ? all : all - diagonal);
  }

  torch::Tensor a_;
  double truth_;
};

TEST_P(Frobenius, IsUnbiased) {
  const auto values = estimates(1);
  ASSERT_EQ(values.sizes(), (std::vector<int64_t>{kCopies}));
  const double standard_error = std::sqrt(theoretical_variance() / kCopies);
  EXPECT_NEAR(values.mean().item<double>(), truth_, 5 * standard_error);
}

TEST_P(Frobenius, HasTheTheoreticalVariance) {
  // Quadratic forms have heavy tails: 20,000 samples give their variance to some 4%.
  EXPECT_NEAR(variance(estimates(1)) / theoretical_variance(), 1.0, 0.15);
}

TEST_P(Frobenius, ErrorFallsAsTheInverseSquareRootOfTheProbes) {
  const double one = std::sqrt(variance(estimates(1, 10000)));
  for (const int64_t probes : {4, 16, 64}) {
    const double many = std::sqrt(variance(estimates(probes, 10000)));
    EXPECT_NEAR(many * std::sqrt(static_cast<double>(probes)) / one, 1.0, 0.08) << probes;
  }
}

TEST_P(Frobenius, GradientIsThatOfTheDensePenalty) {
  // E ∇‖εᵀJ‖² = ∇‖J‖²_F, for a J that depends on its parameters through f itself as well.
  const auto problem = test::tanh_problem(1, kDim, 0.9, generator_);
  const auto w = problem.map.w.clone().requires_grad_();
  const auto z = problem.z_star;
  const auto dense_penalty =
      ((1 - torch::tanh(problem.map.x + z.mm(w.t())).square()).unsqueeze(2) * w).square().sum() /
      kDim;
  const auto expected = torch::autograd::grad({dense_penalty}, {w})[0];
  const test::TanhMap map{w, problem.map.x.expand({2000, kDim})};
  std::vector<torch::Tensor> gradients;
  for (int i = 0; i < 30; ++i) {
    const auto penalty = jacobian_penalty(test::linearize(map, z.expand({2000, kDim})),
                                          {.probes = 1, .distribution = GetParam()}, generator_);
    gradients.push_back(torch::autograd::grad({penalty}, {w})[0]);
  }
  const auto all = torch::stack(gradients);
  const auto standard_error = all.std(0) / std::sqrt(30.0);
  EXPECT_TRUE(((all.mean(0) - expected).abs() <= 5 * standard_error).all().item<bool>())
      << (all.mean(0) - expected) / standard_error;
  // The bound itself must be tight enough to mean something.
  EXPECT_LT((standard_error.max() / expected.abs().max()).item<double>(), 0.01);
}

TEST_P(Frobenius, PenaltyIsTheBatchMeanOverTheDimension) {
  const auto at = copies(7);
  const Hutchinson options{.probes = 3, .distribution = GetParam()};
  const auto values = frobenius_squared(at, options, test::generator(5));
  const auto penalty = jacobian_penalty(at, options, test::generator(5));
  EXPECT_NEAR(penalty.item<double>(), values.mean().item<double>() / kDim, 1e-13);
}

TEST_P(Frobenius, TheGeneratorDecides) {
  const auto draw = [&](uint64_t stream) {
    return frobenius_squared(copies(3), {.distribution = GetParam()}, test::generator(stream));
  };
  EXPECT_TRUE(draw(1).equal(draw(1)));
  EXPECT_FALSE(draw(1).equal(draw(2)));
}

TEST_P(Frobenius, ASplitBatchMeetsTheProbesOfTheWhole) {
  const Hutchinson options{.probes = 3, .distribution = GetParam()};
  const auto whole = frobenius_squared(copies(11), options, ProbeKey{.key = 7});
  int64_t first = 0;
  for (const int64_t count : {1, 4, 6}) {
    const auto part = frobenius_squared(copies(count), options, ProbeKey{7, first});
    EXPECT_TRUE(part.equal(whole.narrow(0, first, count))) << first;
    first += count;
  }
  const auto penalty = jacobian_penalty(copies(11), options, ProbeKey{.key = 7});
  EXPECT_NEAR(penalty.item<double>(), whole.mean().item<double>() / kDim, 1e-13);
}

TEST_P(Frobenius, SamplesProbesAndKeysHaveProbesOfTheirOwn) {
  const auto estimate = [&](int64_t probes, uint64_t key) {
    return frobenius_squared(copies(50), {.probes = probes, .distribution = GetParam()},
                             ProbeKey{.key = key});
  };
  const auto one = estimate(1, 7), two = estimate(2, 7), other = estimate(1, 8);
  // Few signs make few values: it is enough that no draw repeats another as a whole.
  EXPECT_FALSE((2 * two - one).equal(one));
  EXPECT_FALSE(other.equal(one));
  EXPECT_GT(std::get<0>(torch::_unique(one)).size(0), 8);
}

INSTANTIATE_TEST_SUITE_P(Probes, Frobenius,
                         ::testing::Values(ProbeDistribution::Gaussian,
                                           ProbeDistribution::Rademacher),
                         [](const auto& c) {
                           return c.param == ProbeDistribution::Gaussian ? "Gaussian"
                                                                         : "Rademacher";
                         });

class Exact : public test::Seeded {};

TEST_F(Exact, OneRademacherProbeSufficesForADiagonalJacobian) {
  // (ε ⊙ j)² = j²: value and gradient have no noise at all.
  const auto a = torch::randn({4}, generator_, f64()).requires_grad_();
  const auto z = torch::randn({3, 4}, generator_, f64());
  const Map f = [&](const torch::Tensor& t) { return torch::tanh(a * t); };
  const auto penalty = jacobian_penalty(
      test::linearize(f, z), {.distribution = ProbeDistribution::Rademacher}, generator_);
  const auto slope = a * (1 - torch::tanh(a * z).square());
  const auto expected = slope.square().mean();  // mean over the batch of Σ j² / D
  EXPECT_NEAR(penalty.item<double>(), expected.item<double>(), 1e-15);
  const auto gradient = torch::autograd::grad({penalty}, {a})[0];
  EXPECT_LT(test::relative_difference(gradient, torch::autograd::grad({expected}, {a})[0]), 1e-13);
}

TEST_F(Exact, TheMeanOverAllSignsIsTheNormAndItsGradient) {
  constexpr int64_t kSmall = 4;
  const auto problem = test::tanh_problem(2, kSmall, 0.9, generator_);
  const auto w = problem.map.w.clone().requires_grad_();
  const test::TanhMap map{w, problem.map.x};
  const auto at = test::linearize(map, problem.z_star);
  auto sum = torch::zeros({}, f64());
  for (int64_t corner = 0; corner < (1 << kSmall); ++corner) {
    auto signs = torch::empty({2, kSmall}, f64());
    for (int64_t i = 0; i < kSmall; ++i) signs.select(1, i).fill_((corner >> i) & 1 ? 1.0 : -1.0);
    sum = sum + at.vjp(signs, /*differentiable=*/true).square().sum();
  }
  const auto expected = map.jacobian(problem.z_star).square().sum();
  EXPECT_NEAR((sum / (1 << kSmall)).item<double>(), expected.item<double>(), 1e-12);
  const auto gradient = torch::autograd::grad({sum}, {w})[0] / (1 << kSmall);
  EXPECT_LT(test::relative_difference(gradient, torch::autograd::grad({expected}, {w})[0]), 1e-13);
}

TEST_F(Exact, WithoutGraphUnlessAsked) {
  const auto w = torch::randn({3, 3}, generator_, f64()).requires_grad_();
  const auto at =
      test::linearize([&](const torch::Tensor& z) { return z.mm(w); }, torch::ones({2, 3}, f64()));
  EXPECT_FALSE(frobenius_squared(at, {}, generator_).requires_grad());
  EXPECT_TRUE(frobenius_squared(at, {}, generator_, /*differentiable=*/true).requires_grad());
}

TEST_F(Exact, ProbesAreValidated) {
  EXPECT_THAT(
      [] { validate(Hutchinson{.probes = 0}); },
      ::testing::ThrowsMessage<Error>(::testing::StrEq("hutchinson: probes = 0, must be ≥ 1")));
}

TEST_F(Exact, LinsleysPenaltyMissesALargeEigenvalue) {
  const auto a = torch::tensor({2.0, -2.0, -2.0, 2.0}, f64()).view({2, 2});
  const auto at = test::linearize(test::AffineMap{a, torch::zeros({1, 2}, f64())},
                                  torch::randn({3, 2}, generator_, f64()));
  for (const double lambda : {0.0, 0.5, 0.9})
    EXPECT_EQ(linsley_penalty(at, lambda).item<double>(), 0.0);
  for (const double rho : spectral_radius(at, {}, generator_).rho) EXPECT_NEAR(rho, 4.0, 1e-12);
}

TEST_F(Exact, LinsleysPenaltyIsItsFormula) {
  auto a = torch::randn({4, 4}, generator_, f64());
  a.select(1, 0).sub_(5);  // one column sum that does not count, one that does
  a.select(1, 1).add_(5);
  a.requires_grad_();
  const auto at = test::linearize([&](const torch::Tensor& z) { return z.mm(a.t()); },
                                  torch::ones({2, 4}, f64()));
  const auto expected = (a.sum(0) - 0.1).relu().norm();
  const auto penalty = linsley_penalty(at, 0.1);
  EXPECT_NEAR(penalty.item<double>(), expected.item<double>(), 1e-14);
  EXPECT_LT(test::relative_difference(torch::autograd::grad({penalty}, {a})[0],
                                      torch::autograd::grad({expected}, {a})[0]),
            1e-14);
}

}  // namespace
}  // namespace deq

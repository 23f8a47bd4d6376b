#include "deq/jacobian/spectrum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deq/core/error.h"
#include "deq/jacobian/frobenius.h"
#include "support/maps.h"
#include "support/seed.h"
#include "support/solver_fixture.h"

namespace deq {
namespace {

using test::f64;
using test::rotation;

constexpr double kPi = 3.14159265358979323846;

class Spectrum : public test::Seeded {
 protected:
  /// The linearisation whose J is the given [B, D, D].
  static Linearization with_jacobian(const torch::Tensor& j) {
    const auto zero = torch::zeros({j.size(0), j.size(1)}, j.options());
    return test::linearize(test::AffineMap{j, zero}, zero);
  }
  /// `block` in the corner of a larger matrix with small eigenvalues elsewhere, in a random basis.
  torch::Tensor embed(const torch::Tensor& block, int64_t dim, double rest) {
    auto m = torch::zeros({dim, dim}, f64());
    const int64_t n = block.size(0);
    m.narrow(0, 0, n).narrow(1, 0, n).copy_(block);
    m.narrow(0, n, dim - n)
        .narrow(1, n, dim - n)
        .copy_(test::matrix_with_radius(dim - n, rest, generator_));
    const auto q = test::orthogonal(dim, generator_);
    return q.mm(m).mm(q.t());
  }
  void expect_radii(const torch::Tensor& j, const SpectralRadiusOptions& options = {}) {
    const auto result = spectral_radius(with_jacobian(j), options, generator_);
    const auto expected = test::dense_radius(j);
    ASSERT_EQ(static_cast<int64_t>(result.rho.size()), j.size(0));
    for (int64_t b = 0; b < j.size(0); ++b) {
      const double rho = expected[b].item<double>();
      // ‖Jv − λv‖ ≤ 1e-4·ρ bounds the eigenvalue's error up to its condition number.
      EXPECT_NEAR(result.rho[static_cast<size_t>(b)], rho, 2e-3 * rho) << "sample " << b;
      EXPECT_LE(result.error[static_cast<size_t>(b)], options.tolerance * rho * 1.01);
    }
    EXPECT_LE(result.products, options.max_products);
    EXPECT_NEAR(result.mean(), expected.mean().item<double>(), 2e-3 * result.mean());
  }
};

TEST_F(Spectrum, Rotations) {
  for (const double angle : {0.3, kPi / 2, 2.0, kPi}) {
    for (const double radius : {0.2, 1.0, 3.0}) {
      const auto result =
          spectral_radius(with_jacobian(rotation(angle, radius).unsqueeze(0)), {}, generator_);
      EXPECT_NEAR(result.rho[0], radius, 1e-12 * radius) << angle;
    }
  }
}

TEST_F(Spectrum, AComplexPairInALargeMatrix) {
  expect_radii(torch::stack({embed(rotation(1.0, 1.2), 60, 0.8), embed(rotation(2.5, 0.9), 60, 0.5),
                             embed(rotation(kPi / 2, 2.0), 60, 1.5)}));
}

TEST_F(Spectrum, RealAndComplexDominantEigenvaluesInOneBatch) {
  const auto real = torch::full({1, 1}, -1.3, f64());
  expect_radii(torch::stack({embed(real, 40, 0.9), embed(rotation(0.7, 1.1), 40, 0.7),
                             embed(-real, 40, 1.0), 0.25 * torch::eye(40, f64())}));
}

TEST_F(Spectrum, SmallRandomMatricesAreExact) {
  // With D at most krylov_dim one Arnoldi run is the whole eigenproblem.
  for (const int64_t dim : {1, 2, 3, 7, 24}) {
    const auto j = torch::randn({5, dim, dim}, generator_, f64());
    const auto result = spectral_radius(with_jacobian(j), {}, generator_);
    const auto expected = test::dense_radius(j);
    for (int64_t b = 0; b < 5; ++b) {
      EXPECT_NEAR(result.rho[static_cast<size_t>(b)], expected[b].item<double>(), 1e-9) << dim;
    }
    EXPECT_EQ(result.products, dim);
  }
}

TEST_F(Spectrum, LargeRandomMatrices) {
  // Eigenvalues fill a disc, so the largest are close together: the hard case for Arnoldi.
  expect_radii(torch::randn({2, 80, 80}, generator_, f64()) / std::sqrt(80.0),
               {.krylov_dim = 40, .max_products = 1500});
}

TEST_F(Spectrum, ZeroAndNilpotentMaps) {
  auto j = torch::zeros({3, 3, 3}, f64());
  j[1][0][1] = 1;
  j[1][1][2] = 1;  // one Jordan block
  j[2][0][2] = 5;  // rank 1
  const auto result = spectral_radius(with_jacobian(j), {}, generator_);
  EXPECT_EQ(result.rho[0], 0.0);
  // Rounding of 1e-16 moves the eigenvalues of a Jordan block of size n by its n-th root.
  EXPECT_LT(result.rho[1], 1e-4);
  EXPECT_LT(result.rho[2], 1e-6);
}

TEST_F(Spectrum, AConstantMapHasRadiusZero) {
  const auto value = torch::ones({2, 4}, f64());
  const auto at = test::linearize([&](const torch::Tensor&) { return value; }, value);
  EXPECT_THAT(spectral_radius(at, {}, generator_).rho, ::testing::Each(0.0));
}

TEST_F(Spectrum, AZeroSampleDoesNotDisturbItsNeighbour) {
  const auto j = torch::stack({torch::zeros({40, 40}, f64()), embed(rotation(1.0, 1.5), 40, 1.0)});
  const auto result = spectral_radius(with_jacobian(j), {}, generator_);
  EXPECT_EQ(result.rho[0], 0.0);
  EXPECT_NEAR(result.rho[1], 1.5, 2e-3);
}

TEST_F(Spectrum, ABudgetThatIsTooSmallShowsInTheError) {
  const auto j = (torch::randn({1, 80, 80}, generator_, f64()) / std::sqrt(80.0));
  const SpectralRadiusOptions options{.krylov_dim = 6, .max_products = 10};
  const auto result = spectral_radius(with_jacobian(j), options, generator_);
  EXPECT_EQ(result.products, 10);
  EXPECT_GT(result.error[0], options.tolerance * result.rho[0]);
}

TEST_F(Spectrum, Float32) {
  const auto j =
      torch::stack({embed(rotation(1.0, 1.2), 50, 0.8), embed(rotation(2.0, 0.7), 50, 0.5)});
  const auto result = spectral_radius(with_jacobian(j.to(torch::kFloat32)), {}, generator_);
  EXPECT_NEAR(result.rho[0], 1.2, 2e-3);
  EXPECT_NEAR(result.rho[1], 0.7, 2e-3);
}

TEST_F(Spectrum, TheBoundsOfThePaperHold) {
  // ρ ≤ σ ≤ ‖J‖_F.
  for (int i = 0; i < 5; ++i) {
    const auto problem = test::tanh_problem(4, 9, 0.5 + 0.3 * i, generator_);
    const auto at = test::linearize(problem.map, torch::randn({4, 9}, generator_, f64()));
    const auto j = dense_jacobian(at);
    const auto rho = torch::tensor(spectral_radius(at, {}, generator_).rho, f64());
    const auto sigma = torch::linalg_matrix_norm(j, 2);
    const auto frobenius = j.square().sum(c10::IntArrayRef{1, 2}).sqrt();
    EXPECT_TRUE((rho <= sigma * (1 + 1e-12)).all().item<bool>()) << rho << sigma;
    EXPECT_TRUE((sigma <= frobenius * (1 + 1e-12)).all().item<bool>());
  }
}

TEST_F(Spectrum, DenseJacobianMatchesDifferences) {
  const auto problem = test::tanh_problem(2, 5, 1.1, generator_);
  const auto z = torch::randn({2, 5}, generator_, f64());
  const auto j = dense_jacobian(test::linearize(problem.map, z));
  ASSERT_EQ(j.sizes(), (std::vector<int64_t>{2, 5, 5}));
  constexpr double kStep = 1e-5;
  for (int64_t i = 0; i < 5; ++i) {
    auto step = torch::zeros({2, 5}, f64());
    step.select(1, i).fill_(kStep);
    const auto column = (problem.map(z + step) - problem.map(z - step)) / (2 * kStep);
    EXPECT_LT((j.select(2, i) - column).abs().max().item<double>(), 1e-9) << i;
  }
}

TEST_F(Spectrum, TheReferenceFixture) {
  const test::SolverFixture fixture;
  const auto at = test::linearize(fixture.map(), fixture.slab("zstar"));
  EXPECT_LT((dense_jacobian(at) - fixture["J"]).abs().max().item<double>(), 1e-13);
  EXPECT_LT(test::relative_difference(dense_jacobian(at).square().sum(c10::IntArrayRef{1, 2}),
                                      fixture["J_fro2"]),
            1e-13);
  const auto result = spectral_radius(at, {}, generator_);
  EXPECT_LT(
      test::relative_difference(torch::tensor(result.rho, f64()), fixture["J_spectral_radius"]),
      1e-10);
  // The estimator, where the truth is the reference's.
  const int64_t probes = 20000;
  const auto jjt = torch::bmm(fixture["J"], fixture["J"].transpose(1, 2));
  const auto standard_error = (2 * jjt.square().sum(c10::IntArrayRef{1, 2}) / probes).sqrt();
  const auto estimate = frobenius_squared(at, {.probes = probes}, generator_);
  EXPECT_TRUE(((estimate - fixture["J_fro2"]).abs() <= 5 * standard_error).all().item<bool>());
}

TEST_F(Spectrum, OptionsAreValidated) {
  const auto at = with_jacobian(torch::ones({1, 2, 2}, f64()));
  EXPECT_THAT([&] { spectral_radius(at, {.krylov_dim = 1}); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("krylov_dim = 1, must be ≥ 2")));
  EXPECT_THAT(
      [&] { spectral_radius(at, {.max_products = 0}); },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("max_products = 0, must be ≥ 1")));
}

}  // namespace
}  // namespace deq

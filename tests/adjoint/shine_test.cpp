#include <gtest/gtest.h>

#include <limits>

#include "deq/adjoint/adjoint.h"
#include "support/maps.h"
#include "support/seed.h"

// SHINE's u from an inverse, its fall-back, and the adjoint solve that goes on from it.

namespace deq {
namespace {

using test::f64;

/// A multiple of g for every sample, and another vector beside it.
class GivenInverse final : public SecantInverse {
 public:
  explicit GivenInverse(torch::Tensor factors, torch::Tensor more = {})
      : factors_(std::move(factors)), more_(std::move(more)) {}
  torch::Tensor left_product(const torch::Tensor& g) const override {
    const auto product = g * factors_.to(g.scalar_type());
    return more_.defined() ? product + more_ : product;
  }

 private:
  torch::Tensor factors_, more_;
};

class ShineRule : public test::Seeded {
 protected:
  static std::shared_ptr<SecantInverse> scaled_by(const std::vector<double>& factors) {
    return std::make_shared<GivenInverse>(torch::tensor(factors, f64()).unsqueeze(1));
  }
  torch::Tensor draw(int64_t batch, int64_t dim) {
    return torch::randn({batch, dim}, generator_, f64());
  }
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_F(ShineRule, FallsBackToGWhereUIsTooLongOrNotFinite) {
  const auto at = test::linearize([](const torch::Tensor& z) { return 0.5 * z; }, draw(5, 3));
  const auto g = draw(5, 3);
  Report report;
  const auto rule = shine_rule(scaled_by({1.2, 1.4, kNan, -kInfinity, 0.1}), 1.3, std::nullopt);
  const auto u = rule(at, g, report);
  EXPECT_TRUE(u[0].equal(1.2 * g[0]));
  for (const int64_t b : {1, 2, 3}) EXPECT_TRUE(u[b].equal(g[b])) << b;
  EXPECT_TRUE(u[4].equal(0.1 * g[4]));
  EXPECT_EQ(report.fallbacks, 3);
  EXPECT_EQ(report.evaluations, 0);
  EXPECT_EQ(report.status, Status::MaxEvaluations);
  EXPECT_TRUE(report.samples.empty());
}

TEST_F(ShineRule, AZeroGradientStaysZeroWithoutAFallBack) {
  const auto at = test::linearize([](const torch::Tensor& z) { return 0.5 * z; }, draw(2, 3));
  Report report;
  const auto g = torch::zeros({2, 3}, f64());
  EXPECT_TRUE(shine_rule(scaled_by({2.0, 0.5}), 1.3, std::nullopt)(at, g, report).equal(g));
  EXPECT_EQ(report.fallbacks, 0);
}

TEST_F(ShineRule, SmallGradientsAreComparedAsLargeOnes) {
  // Their squares are below float32's range.
  const auto at = test::linearize([](const torch::Tensor& z) { return 0.5 * z; },
                                  draw(2, 8).to(torch::kFloat32));
  const auto g = (draw(2, 8) * 0x1p-80).to(torch::kFloat32);
  Report report;
  const auto u = shine_rule(scaled_by({1.4, 1.2}), 1.3, std::nullopt)(at, g, report);
  EXPECT_EQ(report.fallbacks, 1);
  EXPECT_TRUE(u[0].equal(g[0]));
  EXPECT_FALSE(u[1].equal(g[1]));
}

TEST_F(ShineRule, RefinementIsTheExactAdjointFromABetterStart) {
  const auto problem = test::tanh_problem(3, 30, 0.9, generator_);
  const auto at = test::linearize(problem.map, problem.z_star);
  const auto g = draw(3, 30);
  const auto exact = test::dense_adjoint(problem.map.jacobian(problem.z_star), g);
  // An inverse that is right to a thousandth, whatever the length of its product.
  const auto close =
      std::make_shared<GivenInverse>(torch::zeros({3, 1}, f64()), exact + 1e-3 * draw(3, 30));
  const Solver solver(Broyden{.tol = {.rtol = 1e-6}, .max_evals = 200});
  Report refined, from_zero;
  const auto u = shine_rule(close, kInfinity, solver)(at, g, refined);
  implicit_rule(solver)(at, g, from_zero);
  EXPECT_TRUE(refined.converged()) << refined.brief();
  EXPECT_LT(test::relative_difference(u, exact), 1e-4);
  EXPECT_LT(refined.evaluations, from_zero.evaluations);
  EXPECT_EQ(refined.fallbacks, 0);
  EXPECT_EQ(refined.samples.size(), 3U);
}

TEST_F(ShineRule, TheFirstProductOfARefinementMeasuresItsStart) {
  const auto problem = test::tanh_problem(2, 6, 0.8, generator_);
  const auto at = test::linearize(problem.map, problem.z_star);
  const auto g = draw(2, 6);
  const auto exact = test::dense_adjoint(problem.map.jacobian(problem.z_star), g);
  const auto right = std::make_shared<GivenInverse>(torch::zeros({2, 1}, f64()), exact);
  Report report;
  const auto u =
      shine_rule(right, kInfinity, Solver(Broyden{.tol = {.rtol = 1e-10}}))(at, g, report);
  EXPECT_EQ(report.evaluations, 1);
  EXPECT_TRUE(u.equal(exact));
}

}  // namespace
}  // namespace deq

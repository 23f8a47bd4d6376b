#include <gtest/gtest.h>

#include <cmath>

#include "deq/solvers/solver.h"
#include "support/maps.h"
#include "support/seed.h"
#include "support/solver_cases.h"

// Every solver, in both precisions, on maps whose fixed points are known.

namespace deq {
namespace {

using test::AffineMap;
using test::f64;

struct Case {
  SolverOptions options;
  torch::ScalarType type;

  double rtol() const { return tolerance(options).rtol; }
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << solver_name(c.options) << ", " << c.type;
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    const double rtol = type == torch::kFloat32 ? 2e-6 : 1e-12;
    for (const auto& options : test::every_solver({.rtol = rtol}, 2000)) {
      result.push_back({options, type});
    }
  }
  return result;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return test::test_name(info.param.options) +
         (info.param.type == torch::kFloat32 ? "Float32" : "Float64");
}

class Convergence : public test::SeededWith<Case> {
 protected:
  /// Solves from z0 in the case's type and checks all that holds for any map.
  Solution solve(const Map& map, const torch::Tensor& z0) {
    return solve(map, z0, tolerance(GetParam().options));
  }
  Solution solve(const Map& map, const torch::Tensor& z0, const Tolerance& tol) {
    const auto type = GetParam().type;
    const test::CountingMap f{[&](const torch::Tensor& z) {
      return map(z.to(torch::kFloat64)).to(type);  // the map itself is exact to the type's rounding
    }};
    auto solution = Solver(with_tolerance(GetParam().options, tol)).solve({.f = f}, z0.to(type));
    EXPECT_EQ(solution.report.evaluations, *f.calls);
    EXPECT_EQ(solution.z.scalar_type(), type);
    EXPECT_EQ(solution.z.sizes(), z0.sizes());
    EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
    check_residuals(f, solution, tol);
    return solution;
  }

  void check_residuals(const Map& f, const Solution& solution, const Tolerance& tol) const {
    const auto recomputed = test::residuals(f, solution.z);
    ASSERT_EQ(static_cast<int64_t>(solution.report.samples.size()), solution.z.size(0));
    // ‖f‖² and ‖g‖² are sums of D products; D is small here.
    const double rounding = GetParam().type == torch::kFloat32 ? 1e-5 : 1e-14;
    for (int64_t b = 0; b < solution.z.size(0); ++b) {
      const auto& sample = solution.report.samples[static_cast<size_t>(b)];
      const double absolute = recomputed.absolute[b].item<double>();
      EXPECT_NEAR(sample.absolute, absolute, rounding * absolute);
      const double relative = recomputed.relative[b].item<double>();
      if (std::isfinite(relative)) {
        EXPECT_NEAR(sample.relative, relative, rounding * relative);
      }
      const double image = absolute > 0 ? absolute / relative : 0;
      EXPECT_LE(sample.absolute, (tol.atol + tol.rtol * image) * (1 + rounding));
      EXPECT_EQ(sample.status, Status::Converged);
      EXPECT_LE(sample.evaluations, solution.report.evaluations);
    }
  }
};

TEST_P(Convergence, AffineMapWithKnownEigenvalues) {
  const AffineMap map{
      test::matrix_with_eigenvalues({0.9, -0.8, 0.5, 0.3, -0.1, 0.0, 0.7}, generator_),
      torch::randn({4, 7}, generator_, f64())};
  const auto solution = solve(map, torch::zeros({4, 7}, f64()));
  EXPECT_LT(test::relative_difference(solution.z, map.fixed_point()), 100 * GetParam().rtol());
}

TEST_P(Convergence, TanhMap) {
  const auto problem = test::tanh_problem(5, 12, 0.8, generator_);
  const auto start = problem.z_star + 0.1 * torch::randn({5, 12}, generator_, f64());
  const auto solution = solve(problem.map, start);
  EXPECT_LT(test::relative_difference(solution.z, problem.z_star), 100 * GetParam().rtol());
}

TEST_P(Convergence, ScaledRotation) {
  // A complex pair: the residual's direction turns with every step.
  const AffineMap map{test::rotation(2.0, 0.9), torch::randn({3, 2}, generator_, f64())};
  const auto solution = solve(map, torch::zeros({3, 2}, f64()));
  EXPECT_LT(test::relative_difference(solution.z, map.fixed_point()), 20 * GetParam().rtol());
}

TEST_P(Convergence, OneNumber) {
  const auto solution =
      solve([](const torch::Tensor& z) { return torch::cos(z); }, torch::zeros({1, 1}, f64()));
  EXPECT_NEAR(solution.z.item<double>(), 0.7390851332151607, 2 * GetParam().rtol());
}

TEST_P(Convergence, ConstantMap) {
  const auto value = torch::randn({2, 3}, generator_, f64());
  const auto solution =
      solve([&](const torch::Tensor&) { return value; }, torch::zeros({2, 3}, f64()));
  EXPECT_TRUE(solution.z.equal(value.to(GetParam().type)));
}

TEST_P(Convergence, ZeroMap) {
  // ‖f‖ = 0 everywhere: only the absolute part of the tolerance can be met.
  const auto solution =
      solve([](const torch::Tensor& z) { return torch::zeros_like(z); }, torch::ones({2, 3}, f64()),
            {.atol = 1e-6, .rtol = GetParam().rtol()});
  EXPECT_LT(solution.z.abs().max().item<double>(), 1e-6);
}

TEST_P(Convergence, ManyDimensions) {
  // More numbers per sample than a tile of the kernels holds.
  const auto slope = torch::rand({1, 2500}, generator_, f64()) * 0.8;
  const auto shift = torch::randn({2, 2500}, generator_, f64());
  const auto solution = solve([&](const torch::Tensor& z) { return slope * z + shift; },
                              torch::zeros({2, 2500}, f64()));
  const auto expected = shift / (1 - slope);
  EXPECT_LT(((solution.z - expected).norm() / expected.norm()).item<double>(),
            10 * GetParam().rtol());
}

TEST_P(Convergence, AlreadyConvergedStartCostsOneEvaluation) {
  const auto value =
      torch::randn({2, 3}, generator_, f64()).to(GetParam().type).to(torch::kFloat64);
  const auto solution = solve([&](const torch::Tensor&) { return value; }, value);
  EXPECT_EQ(solution.report.evaluations, 1);
  EXPECT_EQ(solution.report.trace.size(), 1U);
  EXPECT_EQ(solution.report.samples[0].absolute, 0.0);
}

INSTANTIATE_TEST_SUITE_P(EverySolver, Convergence, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace deq

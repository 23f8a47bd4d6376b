#include <gtest/gtest.h>

#include <algorithm>

#include "deq/solvers/solver.h"
#include "support/solver_cases.h"
#include "support/solver_fixture.h"

// Parity with the reference implementations of Anderson and Broyden on f(z) = tanh(zWᵀ + x).

namespace deq {
namespace {

using test::relative_difference;
using test::SolverFixture;

class SolverFixtureTest : public ::testing::Test {
 protected:
  SolverFixture fixture_;
  Problem problem_{.f = fixture_.map()};
};

std::vector<double> values(const torch::Tensor& tensor) {
  return {tensor.data_ptr<double>(), tensor.data_ptr<double>() + tensor.numel()};
}

/// How many entries of the reference's trace happened: after its stop it repeats the lowest.
size_t happened(const std::vector<double>& relative, double eps) {
  const auto stop =
      std::find_if(relative.begin(), relative.end(), [eps](double r) { return r < eps; });
  return static_cast<size_t>(stop - relative.begin()) + (stop == relative.end() ? 0 : 1);
}

/// Our trace from its entry `skip` on is the reference's, to the rounding of a residual: f − z is
/// known to some units in the last place of f, however small it is.
void expect_published_trace(const Report& report, size_t skip, const std::vector<double>& reference,
                            size_t count, double image) {
  for (size_t k = 0; k < count; ++k) {
    EXPECT_NEAR(report.trace.at(k + skip).mean_absolute, reference[k], 8 * 0x1p-52 * image) << k;
  }
}

TEST_F(SolverFixtureTest, EverySolverReachesTheExactFixedPoint) {
  for (const auto& options : test::every_solver({.rtol = 1e-13}, 2000)) {
    const auto solution = Solver(options).solve(problem_, fixture_.start());
    EXPECT_TRUE(solution.report.converged())
        << solver_name(options) << ": " << solution.report.brief();
    EXPECT_LT(relative_difference(solution.z, fixture_.slab("zstar")), 1e-12)
        << solver_name(options);
  }
}

TEST_F(SolverFixtureTest, AndersonFollowsTheReference) {
  const auto settings = fixture_.metadata("anderson");
  const Anderson options{.memory = settings.at("m"),
                         .beta = settings.at("beta"),
                         .ridge = settings.at("lam"),
                         .ridge_scale = RidgeScale::Absolute,
                         .restart_factor = 1e300,  // the reference never restarts
                         .tol = {.rtol = settings.at("eps"), .scope = NormScope::WholeBatch},
                         .max_evals = settings.at("threshold"),
                         .guards = {.stagnation_window = 0}};
  const auto solution = Solver(options).solve(problem_, fixture_.start());
  const auto& report = solution.report;
  // The reference looks at the residual from its third evaluation on.
  const size_t count = happened(values(fixture_["anderson.rel_trace"]), settings.at("eps"));
  ASSERT_EQ(report.trace.size(), count + 2) << report.brief();
  const auto reference = values(fixture_["anderson.abs_trace"]);
  expect_published_trace(report, 2, reference, count, fixture_["zstar"].norm().item<double>());
  EXPECT_LT(relative_difference(solution.z, fixture_.slab("anderson.result")), 1e-14);
}

TEST_F(SolverFixtureTest, BroydenFollowsTheReference) {
  const auto settings = fixture_.metadata("broyden");
  const int64_t steps = settings.at("threshold");
  const Broyden options{.memory = steps + 1,
                        .tol = {.rtol = settings.at("eps"), .scope = NormScope::WholeBatch},
                        .max_evals = steps + 1,
                        .guards = {.stagnation_window = 0}};
  const auto solution = Solver(options).solve(problem_, fixture_.start());
  const auto& report = solution.report;
  const size_t count = happened(values(fixture_["broyden.rel_trace"]), settings.at("eps"));
  // The reference's trace begins after its first step, at its second evaluation.
  ASSERT_EQ(report.trace.size(), count + 1) << report.brief();
  const auto reference = values(fixture_["broyden.abs_trace"]);
  expect_published_trace(report, 1, reference, count, fixture_["zstar"].norm().item<double>());
  EXPECT_LT(relative_difference(solution.z, fixture_.slab("broyden.result")), 1e-14);
}

}  // namespace
}  // namespace deq

#include <gtest/gtest.h>

#include <cmath>

#include "deq/solvers/solver.h"
#include "support/maps.h"
#include "support/seed.h"
#include "support/solver_cases.h"

// Why a solve stopped, and what it says about itself.

namespace deq {
namespace {

using test::AffineMap;
using test::f64;

class Outcome : public test::SeededWith<SolverOptions> {
 protected:
  Outcome()
      : problem_(test::tanh_problem(3, 8, 0.9, generator_)),
        start_(problem_.z_star + 0.1 * torch::randn({3, 8}, generator_, f64())),
        f_{problem_.map} {}

  Solution solve(const SolverOptions& options, const Callback& callback = {}) {
    return Solver(options).solve({.f = f_}, start_, callback);
  }
  SolverOptions with(double rtol, int64_t max_evals) const {
    return with_max_evals(with_tolerance(GetParam(), {.rtol = rtol}), max_evals);
  }

  test::TanhProblem problem_;
  torch::Tensor start_;
  test::CountingMap f_;
};

void expect_residuals_of_returned(const Map& f, const Solution& solution) {
  const auto recomputed = test::residuals(f, solution.z);
  for (int64_t b = 0; b < solution.z.size(0); ++b) {
    const auto& sample = solution.report.samples[static_cast<size_t>(b)];
    const double absolute = recomputed.absolute[b].item<double>();
    EXPECT_NEAR(sample.absolute, absolute, 1e-13 * absolute) << "sample " << b;
    const double relative = recomputed.relative[b].item<double>();
    EXPECT_NEAR(sample.relative, relative, 1e-13 * relative) << "sample " << b;
  }
}

void expect_honest_trace(const Report& report) {
  ASSERT_FALSE(report.trace.empty());
  int64_t evaluations = 0, active = static_cast<int64_t>(report.samples.size());
  for (const auto& point : report.trace) {
    EXPECT_GT(point.evaluations, evaluations);
    EXPECT_LE(point.active, active);
    EXPECT_GT(point.active, 0);
    EXPECT_LE(point.mean_relative, point.max_relative * (1 + 1e-12));
    EXPECT_LE(point.mean_absolute, point.max_absolute * (1 + 1e-12));
    evaluations = point.evaluations;
    active = point.active;
  }
  EXPECT_LE(evaluations, report.evaluations);
}

TEST_P(Outcome, EveryBudgetIsKeptAndReported) {
  for (int64_t budget = 1; budget <= 12; ++budget) {
    *f_.calls = 0;
    const auto solution = solve(with(1e-14, budget));
    EXPECT_EQ(*f_.calls, budget);
    EXPECT_EQ(solution.report.evaluations, budget);
    EXPECT_EQ(solution.report.status, Status::MaxEvaluations);
    EXPECT_EQ(solution.report.count(Status::MaxEvaluations), 3);
    EXPECT_EQ(solution.report.trace.back().evaluations, budget);
    expect_honest_trace(solution.report);
    expect_residuals_of_returned(problem_.map, solution);
  }
}

TEST_P(Outcome, BudgetOfOneReturnsTheStart) {
  const auto start = torch::randn({3, 8}, generator_, f64());
  const auto solution = Solver(with(1e-14, 1)).solve({.f = f_}, start);
  EXPECT_TRUE(solution.z.equal(start));
}

TEST_P(Outcome, SecondEvaluationIsAPlainStep) {
  // Every method starts from J ≈ 0. (NewtonKrylov has no evaluation left for a product.)
  torch::Tensor second;
  solve(with(1e-14, 2), [&](const Progress& progress) {
    second = progress.z.clone();
    return true;
  });
  EXPECT_LT(test::relative_difference(second, problem_.map(start_)), 1e-15);
}

TEST_P(Outcome, ReturnsTheBestIterate) {
  std::vector<torch::Tensor> seen;
  const auto solution = solve(with(1e-14, 15), [&](const Progress& progress) {
    seen.push_back(test::residuals(problem_.map, progress.z).relative);
    return true;
  });
  const auto best = std::get<0>(torch::stack(seen).min(0));
  const auto returned = test::residuals(problem_.map, solution.z).relative;
  EXPECT_TRUE(returned.equal(best)) << returned << best;
}

TEST_P(Outcome, CallbackSeesEveryPointAndCanStop) {
  std::vector<int64_t> evaluations;
  const auto solution = solve(with(1e-14, 100), [&](const Progress& progress) {
    EXPECT_TRUE(progress.f.equal(problem_.map(progress.z)));
    evaluations.push_back(progress.point.evaluations);
    return evaluations.size() < 4;
  });
  EXPECT_EQ(evaluations.size(), 4U);
  EXPECT_EQ(solution.report.trace.size(), 4U);
  EXPECT_EQ(solution.report.trace.back().evaluations, evaluations.back());
  EXPECT_EQ(solution.report.status, Status::UserStopped);
  EXPECT_EQ(solution.report.count(Status::UserStopped), 3);
  EXPECT_EQ(solution.report.evaluations, *f_.calls);
  expect_residuals_of_returned(problem_.map, solution);
}

TEST_P(Outcome, StagnationIsNamed) {
  // A float32 map that knows its own value to 1e-6 only: a residual of 1e-12 is out of reach.
  const auto w = problem_.map.w.to(torch::kFloat32), x = problem_.map.x.to(torch::kFloat32);
  const Map f = [&, sign = 1.0](const torch::Tensor& z) mutable {
    sign = -sign;
    return torch::tanh(torch::addmm(x, z, w.t())) * (1 + sign * 1e-6);
  };
  const auto start = problem_.z_star.to(torch::kFloat32) + 0.01F;
  const auto solution = Solver(with(1e-12, 5000)).solve({.f = f}, start);
  EXPECT_EQ(solution.report.status, Status::Stagnated) << solution.report.brief();
  EXPECT_LT(solution.report.evaluations, 5000);
  EXPECT_LT(solution.report.max_relative(), 1e-4);
}

TEST_P(Outcome, WholeBatchNormIsThatOfTheBatch) {
  const auto options = with_tolerance(with(0, 400), {.rtol = 1e-8, .scope = NormScope::WholeBatch});
  const auto solution = solve(options);
  ASSERT_TRUE(solution.report.converged()) << solution.report.brief();
  const auto image = problem_.map(solution.z);
  const double absolute = (image - solution.z).norm().item<double>();
  EXPECT_LE(absolute, 1e-8 * image.norm().item<double>());
  for (const auto& sample : solution.report.samples) {
    EXPECT_NEAR(sample.absolute, absolute, 1e-13 * absolute);
    EXPECT_EQ(sample.evaluations, solution.report.evaluations);
  }
  for (const auto& point : solution.report.trace) {
    EXPECT_EQ(point.active, 3);
    EXPECT_NEAR(point.mean_absolute, point.max_absolute, 1e-14 * point.max_absolute);
  }
}

TEST_P(Outcome, AbsoluteToleranceIsAbsolute) {
  const auto solution = solve(with_tolerance(with(0, 400), {.atol = 1e-5, .rtol = 0}));
  ASSERT_TRUE(solution.report.converged());
  EXPECT_LE(solution.report.max_absolute(), 1e-5);
  EXPECT_GT(solution.report.max_absolute(), 1e-10);  // it did not go on needlessly
}

TEST_P(Outcome, ZeroToleranceStopsOnlyAtAnExactFixedPoint) {
  const auto rounding = solve(with_tolerance(with(0, 20), {.atol = 0, .rtol = 0}));
  EXPECT_EQ(rounding.report.status, Status::MaxEvaluations);
  const Map constant = [](const torch::Tensor& z) { return torch::ones_like(z); };
  const auto exact = Solver(with_tolerance(with(0, 20), {.atol = 0, .rtol = 0}))
                         .solve({.f = constant}, torch::zeros({1, 2}, f64()));
  EXPECT_EQ(exact.report.status, Status::Converged);
}

TEST_P(Outcome, ResidualOfReturnedIterateWhereTheImageVanishes) {
  // ‖f‖ = 0 makes every relative residual infinite, but not the absolute one that is reported.
  const Map zero = [](const torch::Tensor& z) { return torch::zeros_like(z); };
  const auto start = torch::full({1, 4}, 3.0, f64());
  const auto solution = Solver(with(1e-3, 1)).solve({.f = zero}, start);
  EXPECT_EQ(solution.report.samples[0].absolute, 6.0);
}

INSTANTIATE_TEST_SUITE_P(EverySolver, Outcome,
                         ::testing::ValuesIn(test::every_solver({.rtol = 1e-3}, 40)),
                         [](const auto& c) { return test::test_name(c.param); });

TEST(OutcomeWhereTheImageVanishes, TheBestIterateIsStillKept) {
  // Half steps towards 0 on f = 0: relative residuals are all infinite, the absolute ones fall.
  const Map zero = [](const torch::Tensor& z) { return torch::zeros_like(z); };
  const auto solution = Solver(Picard{.damping = 0.5, .tol = {.rtol = 1e-3}, .max_evals = 10})
                            .solve({.f = zero}, torch::ones({1, 4}, f64()));
  EXPECT_TRUE(solution.z.equal(torch::full({1, 4}, std::ldexp(1.0, -9), f64()))) << solution.z;
  EXPECT_EQ(solution.report.samples[0].absolute, std::ldexp(2.0, -9));
}

class Divergence : public test::Seeded {};

TEST_F(Divergence, PicardBeyondRadiusOneIsNamedAndKeepsTheBest) {
  const AffineMap map{test::matrix_with_radius(5, 1.5, generator_),
                      torch::randn({2, 5}, generator_, f64())};
  const auto solution =
      Solver(Picard{.max_evals = 500}).solve({.f = map}, torch::zeros({2, 5}, f64()));
  EXPECT_EQ(solution.report.status, Status::Diverged);
  EXPECT_LT(solution.report.evaluations, 100);
  EXPECT_TRUE(torch::isfinite(solution.z).all().item<bool>());
  expect_residuals_of_returned(map, solution);
}

TEST_F(Divergence, FactorDecides) {
  const Map doubling = [](const torch::Tensor& z) { return 2 * z + 1; };  // ‖g‖ doubles each step
  for (const auto& [factor, evaluations] : {std::pair{3.0, 3}, {100.0, 8}, {1e4, 15}}) {
    const auto solution = Solver(Picard{.max_evals = 50, .guards = {.divergence_factor = factor}})
                              .solve({.f = doubling}, torch::zeros({1, 3}, f64()));
    EXPECT_EQ(solution.report.status, Status::Diverged);
    EXPECT_EQ(solution.report.evaluations, evaluations) << factor;
  }
}

TEST_F(Divergence, StagnationWindowOfZeroNeverStops) {
  // g only changes sign: nothing is ever gained.
  const Map flip = [](const torch::Tensor& z) { return 1 - z; };
  const auto start = torch::zeros({1, 1}, f64());
  const auto endless = Solver(Picard{.max_evals = 200, .guards = {.stagnation_window = 0}})
                           .solve({.f = flip}, start);
  EXPECT_EQ(endless.report.status, Status::MaxEvaluations);
  const auto guarded = Solver(Picard{.max_evals = 200, .guards = {.stagnation_window = 7}})
                           .solve({.f = flip}, start);
  EXPECT_EQ(guarded.report.status, Status::Stagnated);
  EXPECT_EQ(guarded.report.evaluations, 8);
}

}  // namespace
}  // namespace deq

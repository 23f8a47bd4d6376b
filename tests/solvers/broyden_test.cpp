#include <gtest/gtest.h>

#include "deq/solvers/solver.h"
#include "support/dense_broyden.h"
#include "support/maps.h"
#include "support/seed.h"

// Broyden, its limited-memory form, and its line search.

namespace deq {
namespace {

using test::AffineMap;
using test::f64;

std::vector<double> trace_of(const Report& report) {
  std::vector<double> norms;
  for (const auto& point : report.trace) norms.push_back(point.mean_absolute);
  return norms;
}

void expect_same_trace(const std::vector<double>& own, const std::vector<double>& expected,
                       double tolerance) {
  ASSERT_EQ(own.size(), expected.size());
  for (size_t k = 0; k < own.size(); ++k) {
    // Rounding in the first residuals sets the scale of what later ones can differ by.
    EXPECT_NEAR(own[k], expected[k], tolerance * (expected[k] + 1e-6 * expected[0])) << k;
  }
}

class BroydenTest : public test::Seeded {};

TEST_F(BroydenTest, FollowsTheDenseMethod) {
  for (const double radius : {0.9, 1.3}) {
    const auto problem = test::tanh_problem(1, 12, radius, generator_);
    const auto start = problem.z_star + 0.2 * torch::randn({1, 12}, generator_, f64());
    const auto solution =
        Solver(Broyden{.tol = {.rtol = 0}, .max_evals = 15}).solve({.f = problem.map}, start);
    expect_same_trace(trace_of(solution.report),
                      test::dense_broyden(problem.map, start[0], {.max_evals = 15}).norms, 1e-9);
  }
}

/// Picard overshoots everywhere: the slope of f − z is far below −1.
test::TanhMap steep_map(at::Generator generator) {
  return {-6 * torch::eye(6, f64()) + test::matrix_with_radius(6, 2.0, generator),
          torch::randn({1, 6}, generator, f64())};
}

TEST_F(BroydenTest, LineSearchFollowsTheDenseMethod) {
  const auto map = steep_map(generator_);
  const auto start = torch::randn({1, 6}, generator_, f64());
  const Broyden options{.line_search = true, .tol = {.rtol = 0}, .max_evals = 25};
  const auto expected = test::dense_broyden(map, start[0], options);
  const auto solution = Solver(options).solve({.f = map}, start);
  expect_same_trace(trace_of(solution.report), expected.norms, 1e-8);
  EXPECT_GT(expected.rejections, 2);
  EXPECT_EQ(solution.report.step_rejections, expected.rejections);
}

TEST_F(BroydenTest, LineSearchConvergesWhereFullStepsOvershoot) {
  // g = f − z = −8 atan(z): a full step from 2 lands beyond −6, and so on to and fro.
  const Map f = [](const torch::Tensor& z) { return z - 8 * torch::atan(z); };
  const auto start = torch::full({1, 1}, 2.0, f64());
  const Tolerance tol{.atol = 1e-10, .rtol = 0};
  const auto plain = Solver(Broyden{.tol = tol, .max_evals = 60}).solve({.f = f}, start);
  EXPECT_FALSE(plain.report.converged());
  EXPECT_EQ(plain.report.step_rejections, 0);
  const auto searched =
      Solver(Broyden{.line_search = true, .tol = tol, .max_evals = 60}).solve({.f = f}, start);
  EXPECT_TRUE(searched.report.converged()) << searched.report.brief();
  EXPECT_EQ(searched.report.step_rejections, 2);
}

TEST_F(BroydenTest, LineSearchLengthsArePerSample) {
  // The first sample needs shortened steps, the second none: it must be as if it were alone.
  const Map f = [](const torch::Tensor& z) {
    return torch::cat(
        {z.narrow(0, 0, 1) - 8 * torch::atan(z.narrow(0, 0, 1)), 0.5 * z.narrow(0, 1, 1) + 1});
  };
  const Map second = [](const torch::Tensor& z) { return 0.5 * z + 1; };
  const Broyden options{.line_search = true, .tol = {.atol = 1e-10, .rtol = 0}, .max_evals = 60};
  const auto both = Solver(options).solve({.f = f}, torch::full({2, 1}, 2.5, f64()));
  const auto alone = Solver(options).solve({.f = second}, torch::full({1, 1}, 2.5, f64()));
  EXPECT_TRUE(both.report.converged());
  EXPECT_TRUE(both.z[1].equal(alone.z[0]));
}

TEST_F(BroydenTest, StagnationInALineSearchIsTheSamplesOwn) {
  // While the first sample halves its step again and again, the second waits where it is.
  const Map f = [](const torch::Tensor& z) {
    return torch::cat(
        {z.narrow(0, 0, 1) - 64 * torch::atan(z.narrow(0, 0, 1)), 0.5 * z.narrow(0, 1, 1) + 1});
  };
  const Broyden options{.line_search = true,
                        .tol = {.atol = 1e-10, .rtol = 0},
                        .max_evals = 60,
                        .guards = {.stagnation_window = 3}};
  const auto both = Solver(options).solve({.f = f}, torch::full({2, 1}, 2.5, f64()));
  EXPECT_GT(both.report.step_rejections, 3);
  EXPECT_EQ(both.report.samples[1].status, Status::Converged) << both.report.brief();
}

TEST_F(BroydenTest, SolvesAffineMapsInTwiceTheDimension) {
  // Gay (1979): at most 2D steps, whatever the spectral radius.
  const AffineMap map{test::matrix_with_radius(5, 3.0, generator_),
                      torch::randn({3, 5}, generator_, f64())};
  const auto solution = Solver(Broyden{.tol = {.rtol = 1e-8}, .max_evals = 40})
                            .solve({.f = map}, torch::zeros({3, 5}, f64()));
  EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
  EXPECT_LE(solution.report.evaluations, 2 * 5 + 1);
}

TEST_F(BroydenTest, AFullMemoryStartsAnewAndStillConverges) {
  const auto problem = test::tanh_problem(3, 10, 0.6, generator_);
  const auto start = problem.z_star + 0.1 * torch::randn({3, 10}, generator_, f64());
  for (const int64_t memory : {2, 3, 5}) {
    const auto solution =
        Solver(Broyden{.memory = memory, .tol = {.rtol = 1e-10}, .max_evals = 300})
            .solve({.f = problem.map}, start);
    EXPECT_TRUE(solution.report.converged()) << memory << ": " << solution.report.brief();
    EXPECT_GT(solution.report.restarts, 0) << memory;
  }
}

TEST_F(BroydenTest, RestartsAreCountedPerSample) {
  const auto problem = test::tanh_problem(1, 10, 0.8, generator_);
  const Broyden options{.memory = 3, .tol = {.rtol = 0}, .max_evals = 20};
  const auto one = Solver(options).solve({.f = problem.map}, torch::zeros({1, 10}, f64()));
  const auto four = Solver(options).solve({.f = problem.map}, torch::zeros({4, 10}, f64()));
  EXPECT_GT(one.report.restarts, 0);
  EXPECT_EQ(four.report.restarts, 4 * one.report.restarts);
}

TEST_F(BroydenTest, EvenAMemoryOfOneKeepsASecant) {
  // With one pair the slope of a one-dimensional map is known: 3z + 1 is out of Picard's reach.
  const Map f = [](const torch::Tensor& z) { return 3 * z + 1; };
  const auto start = torch::zeros({1, 1}, f64());
  const auto limited = Solver(LimitedBroyden{.memory = 1}).solve({.f = f}, start);
  EXPECT_TRUE(limited.report.converged()) << limited.report.brief();
  const auto full = Solver(Broyden{.memory = 1}).solve({.f = f}, start);
  EXPECT_TRUE(full.report.converged()) << full.report.brief();
}

TEST_F(BroydenTest, LimitedWithRoomForAllStepsIsTheSameMethod) {
  const auto problem = test::tanh_problem(1, 12, 0.95, generator_);
  const auto start = torch::zeros({1, 12}, f64());
  const auto full =
      Solver(Broyden{.tol = {.rtol = 0}, .max_evals = 16}).solve({.f = problem.map}, start);
  const auto limited = Solver(LimitedBroyden{.memory = 20, .tol = {.rtol = 0}, .max_evals = 16})
                           .solve({.f = problem.map}, start);
  expect_same_trace(trace_of(limited.report), trace_of(full.report), 1e-9);
}

/// Textbook limited-memory Broyden: the oldest pair is dropped before the new one is made, so that
/// the new H satisfies its secant condition H y = s.
std::vector<double> dense_limited_broyden(const Map& f, const torch::Tensor& start,
                                          int64_t evaluations, size_t memory) {
  const auto g_at = [&f](const torch::Tensor& z) { return f(z.unsqueeze(0))[0] - z; };
  std::vector<std::pair<torch::Tensor, torch::Tensor>> pairs;
  const auto apply = [&](torch::Tensor v) {
    v = -v;
    for (const auto& [s, u] : pairs) v = v + u * s.dot(v);
    return v;
  };
  auto z = start, g = g_at(start);
  std::vector<double> norms{g.norm().item<double>()};
  while (static_cast<int64_t>(norms.size()) < evaluations) {
    const auto s = -apply(g);
    z = z + s;
    const auto new_g = g_at(z);
    norms.push_back(new_g.norm().item<double>());
    if (pairs.size() == memory) pairs.erase(pairs.begin());
    const auto h_y = apply(new_g - g);
    pairs.emplace_back(s, (s - h_y) / s.dot(h_y));
    EXPECT_LT(test::relative_difference(apply(new_g - g), s), 1e-9);
    g = new_g;
  }
  return norms;
}

TEST_F(BroydenTest, LimitedForgetsTheOldestPairAndKeepsTheSecantCondition) {
  const auto problem = test::tanh_problem(1, 10, 0.9, generator_);
  const auto start = torch::zeros({1, 10}, f64());
  for (const int64_t memory : {1, 2, 4}) {
    SCOPED_TRACE(memory);
    const auto solution =
        Solver(LimitedBroyden{.memory = memory, .tol = {.rtol = 0}, .max_evals = 20})
            .solve({.f = problem.map}, start);
    EXPECT_EQ(solution.report.restarts, 0);
    expect_same_trace(trace_of(solution.report),
                      dense_limited_broyden(problem.map, start[0], 20, static_cast<size_t>(memory)),
                      1e-8);
  }
}

TEST_F(BroydenTest, AVanishingSecantIsSkippedAndCounted) {
  // f = z + 1: y = 0 at every step, the secant condition has no solution.
  const Map f = [](const torch::Tensor& z) { return z + 1; };
  const auto start = torch::zeros({2, 3}, f64());
  const auto full = Solver(Broyden{.max_evals = 10}).solve({.f = f}, start);
  EXPECT_EQ(full.report.status, Status::MaxEvaluations);
  EXPECT_GT(full.report.restarts + full.report.skipped_updates, 0);
  const auto limited = Solver(LimitedBroyden{.max_evals = 10}).solve({.f = f}, start);
  EXPECT_EQ(limited.report.status, Status::MaxEvaluations);
  EXPECT_EQ(limited.report.skipped_updates, 2 * 8);  // every step except the first, of both samples
}

TEST_F(BroydenTest, ReachesFixedPointsThatRepelPicard) {
  const auto problem = test::tanh_problem(3, 8, 1.5, generator_);
  const auto start = problem.z_star + 1e-3 * torch::randn({3, 8}, generator_, f64());
  for (const SolverOptions& options :
       {SolverOptions(Broyden{.tol = {.rtol = 1e-11}, .max_evals = 100}),
        SolverOptions(LimitedBroyden{.memory = 30, .tol = {.rtol = 1e-11}, .max_evals = 100})}) {
    const auto solution = Solver(options).solve({.f = problem.map}, start);
    EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
    EXPECT_LT(test::relative_difference(solution.z, problem.z_star), 1e-9);
  }
}

}  // namespace
}  // namespace deq

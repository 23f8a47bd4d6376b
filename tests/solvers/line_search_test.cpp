#include <gtest/gtest.h>

#include <limits>

#include "deq/solvers/solver.h"
#include "support/maps.h"
#include "support/seed.h"
#include "support/solver_cases.h"

// A line search tries the samples of a batch together. Those that have stopped meanwhile stay where
// they are.

namespace deq {
namespace {

using test::f64;

std::vector<SolverOptions> searching_solvers(Tolerance tol, int64_t budget, Guards guards = {}) {
  return {Broyden{.line_search = true, .tol = tol, .max_evals = budget, .guards = guards},
          NewtonKrylov{.tol = tol, .max_evals = budget, .guards = guards}};
}

class LineSearch : public test::Seeded {
 protected:
  /// Whether every sample's state has the residual that is reported.
  static void expect_true_report(const Map& f, const Solution& solution) {
    const auto g = (f(solution.z) - solution.z).to(torch::kDouble).norm(2, {1});
    for (int64_t b = 0; b < g.size(0); ++b) {
      const auto& sample = solution.report.samples[static_cast<size_t>(b)];
      // float32's rounding of f(z) − z, with state and image of a few units.
      EXPECT_NEAR(g[b].item<double>(), sample.absolute, 0.01 * sample.absolute + 1e-5)
          << "sample " << b << ", " << status_name(sample.status);
    }
  }
};

TEST_F(LineSearch, WhatIsReportedIsWhatIsReturned) {
  for (int round = 0; round < 12; ++round) {
    const auto w = torch::randn({8, 8}, generator_) * 0.57, x = torch::randn({16, 8}, generator_);
    const auto f = [&](const torch::Tensor& z) { return torch::tanh(z.mm(w)) * 2 + x; };
    // Below what float32 resolves: some samples stagnate while others are still tried.
    for (const auto& options : searching_solvers({.rtol = 1e-8}, 600)) {
      SCOPED_TRACE(test::test_name(options));
      expect_true_report(f, Solver(options).solve({f}, torch::zeros({16, 8})));
    }
  }
}

TEST_F(LineSearch, AStoppedSampleDoesNotGoOnWithItsNeighbour) {
  // The first sample's f is not a number a little further on, the second one halves its steps.
  const auto f = [](const torch::Tensor& z) {
    const auto a = z.narrow(0, 0, 1), b = z.narrow(0, 1, 1);
    const auto gap = (a > -1.3).logical_and(a < -1.2);
    const auto f_of_a = torch::where(
        gap, torch::full_like(a, std::numeric_limits<double>::quiet_NaN()), a + 1 + 0.5 * a * a);
    return torch::cat({f_of_a, b - 64 * torch::atan(b)});
  };
  const auto start = torch::tensor({{0.01}, {2.5}}, f64());
  for (const auto& options :
       searching_solvers({.atol = 1e-10, .rtol = 0}, 60, {.stagnation_window = 2})) {
    SCOPED_TRACE(test::test_name(options));
    const auto solution = Solver(options).solve({f}, start);
    EXPECT_TRUE(f(solution.z).isfinite().all().item<bool>()) << solution.z;
    expect_true_report(f, solution);
  }
}

}  // namespace
}  // namespace deq

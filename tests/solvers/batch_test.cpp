#include <gtest/gtest.h>

#include "deq/solvers/solver.h"
#include "support/maps.h"
#include "support/mixed_map.h"
#include "support/seed.h"
#include "support/solver_cases.h"

// A sample's result does not depend on its neighbours, and a sample that has stopped stays.

namespace deq {
namespace {

using test::f64;

constexpr int64_t kDim = 5;

constexpr int64_t kBatch = test::kMixedBatch;

test::RationalMap mixed_map(at::Generator generator) {
  return test::mixed_map(kDim, std::move(generator));
}

std::vector<SolverOptions> solvers() {
  auto result = test::every_solver({.rtol = 1e-10}, 300);
  result.push_back(Broyden{.memory = 4, .tol = {.rtol = 1e-10}, .max_evals = 300});
  result.push_back(LimitedBroyden{.memory = 2, .tol = {.rtol = 1e-10}, .max_evals = 300});
  result.push_back(Anderson{.memory = 3, .beta = 0.5, .tol = {.rtol = 1e-10}, .max_evals = 300});
  result.push_back(Broyden{.line_search = true, .tol = {.rtol = 1e-10}, .max_evals = 300});
  return result;
}

class Batch : public test::SeededWith<SolverOptions> {
 protected:
  /// Whether all samples share trial points: then what a sample costs depends on the others.
  bool shares_trials() const {
    const auto* broyden = std::get_if<Broyden>(&GetParam());
    return std::holds_alternative<NewtonKrylov>(GetParam()) ||
           (broyden != nullptr && broyden->line_search);
  }
  Solution solve(const Map& f, const torch::Tensor& z0) const {
    return Solver(GetParam()).solve({.f = f}, z0);
  }
};

bool same(double a, double b) {
  return a == b || (a != a && b != b);
}

TEST_P(Batch, ASampleAloneGivesTheSameBits) {
  const auto map = mixed_map(generator_);
  const auto start = torch::zeros({kBatch, kDim}, f64());
  const auto together = solve(map, start);
  for (int64_t b = 0; b < kBatch; ++b) {
    SCOPED_TRACE("sample " + std::to_string(b));
    const auto alone = solve(map.rows(b, 1), start.narrow(0, b, 1));
    const auto& own = alone.report.samples[0];
    const auto& shared = together.report.samples[static_cast<size_t>(b)];
    EXPECT_TRUE(alone.z[0].equal(together.z[b]));
    EXPECT_EQ(own.status, shared.status)
        << status_name(own.status) << ", " << status_name(shared.status);
    EXPECT_TRUE(same(own.absolute, shared.absolute)) << own.absolute << " " << shared.absolute;
    EXPECT_TRUE(same(own.relative, shared.relative));
    if (!shares_trials()) {
      EXPECT_EQ(own.evaluations, shared.evaluations);
    }
  }
}

TEST_P(Batch, OrderDoesNotMatter) {
  const auto map = mixed_map(generator_);
  const auto order = torch::tensor({6, 3, 0, 5, 1, 4, 2});
  const test::RationalMap permuted{map.p.index_select(0, order), map.q.index_select(0, order),
                                   map.r.index_select(0, order)};
  const auto start = torch::zeros({kBatch, kDim}, f64());
  const auto first = solve(map, start), second = solve(permuted, start);
  EXPECT_TRUE(second.z.equal(first.z.index_select(0, order)));
  EXPECT_EQ(second.report.evaluations, first.report.evaluations);
}

TEST_P(Batch, MatrixMapsAgreeToRounding) {
  const auto problem = test::tanh_problem(6, 9, 0.7, generator_);
  const auto start = torch::zeros({6, 9}, f64());
  const auto together = solve(problem.map, start);
  ASSERT_TRUE(together.report.converged()) << together.report.brief();
  for (int64_t b = 0; b < 6; ++b) {
    const test::TanhMap own{problem.map.w, problem.map.x.narrow(0, b, 1)};
    const auto alone = solve(own, start.narrow(0, b, 1));
    // The iterates differ by the rounding of a matrix product, which the steps before the last one
    // amplify; they contract towards z* alike.
    EXPECT_LT(test::relative_difference(alone.z[0], together.z[b]), 1e-11) << b;
  }
}

TEST_P(Batch, StoppedSamplesDoNotMove) {
  const auto map = mixed_map(generator_);
  std::vector<torch::Tensor> iterates;
  std::vector<int64_t> evaluations;
  const auto solution =
      Solver(GetParam())
          .solve({.f = map}, torch::zeros({kBatch, kDim}, f64()), [&](const Progress& progress) {
            iterates.push_back(progress.z.clone());
            evaluations.push_back(progress.point.evaluations);
            return true;
          });
  int64_t frozen = 0;
  for (int64_t b = 0; b < kBatch; ++b) {
    const auto& sample = solution.report.samples[static_cast<size_t>(b)];
    for (size_t k = 0; k < iterates.size(); ++k) {
      if (evaluations[k] < sample.evaluations) continue;
      EXPECT_TRUE(iterates[k][b].equal(solution.z[b]) || sample.status == Status::Stagnated)
          << "sample " << b << ", " << status_name(sample.status) << ", evaluation "
          << evaluations[k];
      frozen += evaluations[k] > sample.evaluations ? 1 : 0;
    }
  }
  EXPECT_GT(frozen, 10);  // the samples did stop at different times
}

TEST_P(Batch, TraceCountsActiveSamples) {
  const auto map = mixed_map(generator_);
  const auto solution = solve(map, torch::zeros({kBatch, kDim}, f64()));
  for (const auto& point : solution.report.trace) {
    int64_t active = 0;
    for (const auto& sample : solution.report.samples) {
      active += sample.evaluations >= point.evaluations ? 1 : 0;
    }
    EXPECT_EQ(point.active, active) << "at evaluation " << point.evaluations;
  }
}

INSTANTIATE_TEST_SUITE_P(EverySolver, Batch, ::testing::ValuesIn(solvers()), [](const auto& c) {
  return test::test_name(c.param) + std::to_string(c.index);
});

}  // namespace
}  // namespace deq

#include "solvers/device_solve.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/device_solve.h"
#include "support/mixed_map.h"
#include "support/seed.h"
#include "support/solver_cases.h"
#include "support/solver_fixture.h"

// A solve whose decisions are made where the slabs are is the solve that the host would have
// driven, to the bit: on the CPU all arithmetic is the same and in the same order. (tests/cuda asks
// the same of a GPU.)

namespace deq {
namespace {

using test::device_solvers;
using test::expect_same_solve;
using test::f64;

class DeviceSolve : public test::Seeded {};

TEST_F(DeviceSolve, SamplesStopForEveryReasonAsTheyWould) {
  const auto map = test::mixed_map(5, generator_);
  std::vector<int64_t> seen(static_cast<size_t>(Status::NotRun) + 1, 0);
  int64_t restarts = 0, raises = 0;
  for (const auto& options : device_solvers({.rtol = 1e-10}, 150, {.stagnation_window = 12})) {
    SCOPED_TRACE(test::test_name(options));
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      const auto own = map.to(type);
      const auto solution = expect_same_solve(options, own, torch::zeros_like(own.p));
      for (const auto& sample : solution.report.samples) ++seen[static_cast<size_t>(sample.status)];
      restarts += solution.report.restarts;
      raises += solution.report.ridge_raises;
    }
  }
  for (const auto status :
       {Status::Converged, Status::Stagnated, Status::Diverged, Status::NonFinite}) {
    EXPECT_GT(seen[static_cast<size_t>(status)], 0) << status_name(status);
  }
  EXPECT_GT(restarts, 0);
  EXPECT_GT(raises, 0);
}

TEST_F(DeviceSolve, EveryBudget) {
  const auto map = test::mixed_map(5, generator_);
  for (int64_t budget = 1; budget <= 9; ++budget) {
    SCOPED_TRACE(budget);
    for (const auto& options : device_solvers({.rtol = 1e-10}, budget)) {
      expect_same_solve(options, map, torch::zeros_like(map.p));
    }
  }
}

TEST_F(DeviceSolve, EveryTolerance) {
  const auto problem = test::tanh_problem(4, 33, 0.9, generator_);
  const auto start = torch::zeros({4, 33}, f64());
  for (const Tolerance tol : {Tolerance{.atol = 1e-6, .rtol = 0},
                              {.atol = 1e-7, .rtol = 1e-7},
                              {.rtol = 1e-8, .scope = NormScope::WholeBatch},
                              {.rtol = 0.0},
                              {.rtol = 0.0, .scope = NormScope::WholeBatch}}) {
    SCOPED_TRACE(fmt::format("atol {:g}, rtol {:g}", tol.atol, tol.rtol));
    for (const auto& options : device_solvers(tol, 60)) {
      expect_same_solve(options, problem.map, start);
    }
  }
}

TEST_F(DeviceSolve, TheWholeBatchStopsAsOne) {
  const auto map = test::mixed_map(5, generator_);  // with a NaN among them
  for (const auto& options : device_solvers({.rtol = 1e-8, .scope = NormScope::WholeBatch}, 20)) {
    const auto solution = expect_same_solve(options, map, torch::zeros_like(map.p));
    EXPECT_EQ(solution.report.count(Status::NonFinite), test::kMixedBatch);
    const auto finite = map.rows(0, 3);
    expect_same_solve(options, finite, torch::zeros_like(finite.p));
  }
}

TEST_F(DeviceSolve, SlabsOfSeveralTiles) {
  const auto map = test::mixed_map(5003, generator_).to(torch::kFloat32);
  for (const auto& options : device_solvers({.rtol = 1e-5}, 25)) {
    expect_same_solve(options, map, torch::zeros_like(map.p));
  }
}

TEST_F(DeviceSolve, WhereTheImageVanishes) {
  const Map zero = [](const torch::Tensor& z) { return torch::zeros_like(z); };
  expect_same_solve(Picard{.damping = 0.5, .max_evals = 10}, zero, torch::ones({2, 4}, f64()));
}

TEST_F(DeviceSolve, TheReferencesProblem) {
  const test::SolverFixture fixture;
  for (const auto scope : {NormScope::PerSample, NormScope::WholeBatch}) {
    for (const auto& options : device_solvers({.rtol = 1e-12, .scope = scope}, 60)) {
      expect_same_solve(options, fixture.map(), fixture.start());
    }
  }
}

TEST_F(DeviceSolve, NoEvaluationIsWasted) {
  const auto problem = test::tanh_problem(3, 8, 0.9, generator_);
  int64_t early = 0;
  for (const auto& options : device_solvers({.rtol = 1e-6}, 200)) {
    const test::CountingMap f{problem.map};
    SlabPool pool;
    const auto start = torch::zeros({3, 8}, f64());
    pool.reset_like(start);
    const torch::NoGradGuard no_grad;
    const auto solution = solve_on_device({.f = f}, options, pool, start);
    EXPECT_EQ(*f.calls, solution.report.evaluations);
    early += *f.calls < 200 ? 1 : 0;
  }
  EXPECT_GE(early, 5);
}

TEST_F(DeviceSolve, APoolServesManySolves) {
  const auto problem = test::tanh_problem(3, 8, 0.9, generator_);
  const torch::NoGradGuard no_grad;
  for (const auto& options : device_solvers({.rtol = 1e-10}, 60)) {
    SlabPool pool;
    pool.reset_like(problem.z_star);
    std::vector<torch::Tensor> solutions, copies;
    for (int i = 0; i < 4; ++i) {
      const auto start = torch::full({3, 8}, 0.1 * (i % 2), f64());
      solutions.push_back(solve_on_device({.f = problem.map}, options, pool, start).z);
      copies.push_back(solutions.back().clone());
    }
    for (size_t i = 0; i < solutions.size(); ++i) {
      EXPECT_TRUE(solutions[i].equal(copies[i])) << "overwritten by a later solve";
      EXPECT_TRUE(solutions[i].equal(solutions[i % 2])) << "changed by an earlier solve";
    }
  }
}

TEST_F(DeviceSolve, IsNotOfferedToOthers) {
  const auto offered = [](const SolverOptions& options) {
    return can_solve_on_device(options, torch::kCPU);
  };
  EXPECT_TRUE(offered(Broyden{.memory = 63, .max_evals = 1000}));
  EXPECT_TRUE(offered(Broyden{.memory = 1000, .max_evals = 63}));
  EXPECT_FALSE(offered(Broyden{.memory = 64, .max_evals = 64}));
  EXPECT_FALSE(offered(Broyden{.line_search = true}));
  EXPECT_TRUE(offered(Anderson{.memory = 16}));
  EXPECT_FALSE(offered(Anderson{.memory = 17}));
  EXPECT_TRUE(offered(LimitedBroyden{.memory = 31, .max_evals = 1000}));
  EXPECT_FALSE(offered(LimitedBroyden{.memory = 32, .max_evals = 1000}));
  EXPECT_FALSE(offered(NewtonKrylov{}));
}

}  // namespace
}  // namespace deq

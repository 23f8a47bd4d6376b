#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/solvers/solver.h"
#include "support/maps.h"
#include "support/seed.h"
#include "support/solver_cases.h"

// A start whose image is known costs no evaluation and is no result.

namespace deq {
namespace {

using test::f64;

class KnownStart : public test::Seeded {
 protected:
  /// With the image of `start`, counting evaluations.
  Problem known(const Map& f, const torch::Tensor& start) {
    return {.f =
                [this, f](const torch::Tensor& z) {
                  ++calls_;
                  return f(z);
                },
            .f_of_start = f(start)};
  }

  int64_t calls_ = 0;
};

TEST_F(KnownStart, IsTheSameSolveWithOneEvaluationLess) {
  const auto problem = test::tanh_problem(3, 6, 0.9, generator_);
  const auto start = torch::zeros({3, 6}, f64());
  for (const int64_t budget : {1, 4, 9}) {
    for (const auto& options : test::every_solver({.rtol = 1e-12}, budget)) {
      SCOPED_TRACE(test::test_name(options));
      calls_ = 0;
      const auto own = Solver(options).solve(known(problem.map, start), start);
      EXPECT_EQ(own.report.evaluations, calls_);
      EXPECT_LE(own.report.evaluations, budget);
      const auto plain = Solver(with_max_evals(options, budget + 1)).solve({problem.map}, start);
      EXPECT_EQ(own.report.evaluations + 1, plain.report.evaluations);
      ASSERT_EQ(own.report.trace.size(), plain.report.trace.size());
      for (size_t i = 0; i < plain.report.trace.size(); ++i) {
        EXPECT_EQ(own.report.trace[i].evaluations + 1, plain.report.trace[i].evaluations);
        EXPECT_EQ(own.report.trace[i].max_relative, plain.report.trace[i].max_relative);
      }
      EXPECT_TRUE(own.z.equal(plain.z));
    }
  }
}

// Picard's iterates of z ↦ 1 − 3z run away from 0.
TEST_F(KnownStart, IsNoResultEvenWhereAllElseIsWorse) {
  const auto f = [](const torch::Tensor& z) { return 1 - 3 * z; };
  const auto start = torch::zeros({2, 3}, f64());
  const Solver solver(Picard{.tol = {.atol = 1e-9, .rtol = 0}, .max_evals = 4});
  EXPECT_TRUE(solver.solve({f}, start).z.equal(start));
  EXPECT_TRUE(solver.solve(known(f, start), start).z.equal(torch::ones({2, 3}, f64())));
}

TEST_F(KnownStart, IsTheResultWhereItHasConverged) {
  const auto f = [](const torch::Tensor& z) { return 0.5 * z; };
  const auto start = torch::zeros({2, 3}, f64());
  const auto solution = Solver(Broyden{}).solve(known(f, start), start);
  EXPECT_TRUE(solution.z.equal(start));
  EXPECT_TRUE(solution.report.converged());
  EXPECT_EQ(solution.report.max_relative(), 0);
  EXPECT_EQ(calls_, 0);
}

TEST_F(KnownStart, ItsImageIsTheResultWhereNothingElseIsFinite) {
  const auto start = torch::zeros({2, 3}, f64());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto image = torch::tensor({{1.0, 2.0, 3.0}, {1.0, kInfinity, 3.0}}, f64());
  const auto f = [](const torch::Tensor& z) { return z * NAN; };
  const auto solution = Solver(Broyden{}).solve({.f = f, .f_of_start = image}, start);
  EXPECT_TRUE(solution.z.equal(image));
  EXPECT_EQ(solution.report.count(Status::NonFinite), 2);
}

TEST_F(KnownStart, ItsImageHasTheStatesShapeAndType) {
  const auto start = torch::zeros({2, 3}, f64());
  const auto f = [](const torch::Tensor& z) { return 0.5 * z; };
  for (const auto& image : {torch::zeros({2, 4}, f64()), torch::zeros({2, 3})}) {
    EXPECT_THROW(Solver(Broyden{}).solve({.f = f, .f_of_start = image}, start), Error);
  }
}

// An adjoint starts at u = 0, whose residual is g itself: with an absolute tolerance all small
// gradients would be 0.
TEST_F(KnownStart, IsNoResultHoweverSmallItsResidual) {
  const auto f = [](const torch::Tensor& z) { return 0.5 * z + 1e-8; };
  const auto start = torch::zeros({2, 3}, f64());
  for (const auto& options : test::every_solver({.atol = 1e-6, .rtol = 0}, 20)) {
    SCOPED_TRACE(test::test_name(options));
    calls_ = 0;
    const auto solution = Solver(options).solve(known(f, start), start);
    EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
    EXPECT_TRUE(solution.z.ge(1e-8).all().item<bool>()) << solution.z;
    EXPECT_GE(calls_, 1);
  }
}

}  // namespace
}  // namespace deq

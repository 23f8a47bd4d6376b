#include "deq/core/interruption.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "deq/adjoint/adjoint.h"
#include "deq/jacobian/spectrum.h"
#include "deq/solvers/solver.h"

namespace deq {
namespace {

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

thread_local int calls_left = 0;

/// Lets solves of this thread ask so many times before it throws.
class InterruptionAfter {
 public:
  explicit InterruptionAfter(int calls) {
    calls_left = calls;
    set_interruption_check([] {
      if (calls_left-- == 0) throw Interrupted();
    });
  }
  ~InterruptionAfter() { set_interruption_check(nullptr); }
  InterruptionAfter(const InterruptionAfter&) = delete;
  InterruptionAfter& operator=(const InterruptionAfter&) = delete;
};

TEST(InterruptionTest, StopsASolveAndLeavesTheSolverAsItWas) {
  const Solver solver(Picard{.tol = {.rtol = 0}, .max_evals = 50});
  int evaluations = 0;
  const Problem problem{.f = [&](const torch::Tensor& z) {
    ++evaluations;
    return (z * 0.5 + 1).clone();
  }};
  const auto start = torch::zeros({2, 3}, torch::kFloat64);
  {
    const InterruptionAfter some(7);
    EXPECT_THROW(solver.solve(problem, start), Interrupted);
  }
  EXPECT_EQ(evaluations, 7);
  EXPECT_EQ(solver.solve(problem, start).report.evaluations, 50);
}

TEST(InterruptionTest, StopsProductsWithTheJacobian) {
  const auto z = torch::randn({2, 6}, torch::kFloat64).requires_grad_();
  const Linearization at(z, z.tanh());
  const InterruptionAfter some(3);
  EXPECT_THROW((void)spectral_radius(at), Interrupted);
  Report report;
  calls_left = 3;
  EXPECT_THROW((void)truncated_rule(5)(at, torch::ones({2, 6}, torch::kFloat64), report),
               Interrupted);
}

}  // namespace
}  // namespace deq

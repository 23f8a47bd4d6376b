#include "deq/solvers/solver.h"
#include "gpu_test.h"
#include "kernels/history/history.h"

// Broyden's steps in bfloat16.

namespace deq {
namespace {

using test::distance;
using test::largest;
using HalfStepsCudaTest = test::GpuTest;

TEST_F(HalfStepsCudaTest, KernelsReadAndWriteThem) {
  const auto marks = at::tensor({1, 3}, at::kByte).cuda();
  for (const int64_t dim : {1, 31, 2049, 5000}) {
    SCOPED_TRACE(dim);
    const auto f = draw({2, dim}), z = draw({2, dim});
    const std::vector<at::Tensor> steps{draw({2, dim}, at::kBFloat16),
                                        draw({2, dim}, at::kBFloat16)};
    const std::vector<at::Tensor> same{steps[0].to(at::kFloat), steps[1].to(at::kFloat)};
    auto g = at::empty_like(z), other = at::empty_like(z);
    EXPECT_TRUE(kernels::enqueue::observe(f, z, g, steps, steps[1], marks)
                    .equal(kernels::enqueue::observe(f, z, other, same, same[1], marks)));

    const auto weights = draw({2, 3}, at::kDouble);
    auto best = z.clone(), next = at::empty_like(z), exact_next = at::empty_like(z);
    const auto step = at::empty_like(z, at::kBFloat16), exact_step = at::empty_like(z);
    kernels::enqueue::advance({g, steps[0], steps[1]}, weights, z, best, marks, step, next);
    kernels::enqueue::advance({g, same[0], same[1]}, weights, z, best, marks, exact_step,
                              exact_next);
    EXPECT_TRUE(step.equal(exact_step.to(at::kBFloat16)));
    EXPECT_TRUE(next.equal(z + step.to(at::kFloat))) << "the step that is remembered was taken";
  }
}

TEST_F(HalfStepsCudaTest, TheSameFixedPointIsFound) {
  const int64_t dim = 3000;
  const auto slopes = draw({1, dim}).clamp(-0.9, 0.9), x = draw({5, dim});
  const Problem problem{.f = [&](const at::Tensor& z) { return at::tanh(slopes * z + x); }};
  const auto solve = [&](bool half) {
    const Solver solver(Broyden{.bfloat16_steps = half, .tol = {.rtol = 1e-5}, .max_evals = 40});
    return solver.solve(problem, at::zeros_like(x));
  };
  const auto half = solve(true), whole = solve(false);
  EXPECT_TRUE(half.report.converged()) << half.report.brief();
  EXPECT_LE(distance(half.z, whole.z), 1e-4 * largest(whole.z));
  EXPECT_LE(half.report.evaluations, whole.report.evaluations + 6);
  EXPECT_FALSE(half.z.equal(whole.z)) << "the option does nothing";
}

}  // namespace
}  // namespace deq

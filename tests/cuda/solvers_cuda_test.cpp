#include <gtest/gtest.h>
#include <torch/torch.h>

#include "core/format.h"
#include "gpu_test.h"
#include "kernels/history/history.h"
#include "kernels/history/history_common.h"
#include "solvers/device_solve.h"
#include "support/device_solve.h"
#include "support/mixed_map.h"
#include "support/solver_cases.h"

// Solves on a GPU without the host, against the same solves driven by the host on the same GPU (the
// decisions are compiled without fused multiply-adds, so not a bit may differ) and against the CPU.
// Without a GPU every test here says so and is skipped.

namespace deq {
namespace {

using test::device_solvers;
using test::expect_same_solve;

class SolversCuda : public test::GpuTest {
 protected:
  at::Tensor draw(int64_t batch, int64_t dim, at::ScalarType type) {
    return at::randn({batch, dim}, generator_, at::TensorOptions(at::kDouble)).to(type);
  }
};

torch::TensorOptions cuda(at::ScalarType type) {
  return torch::dtype(type).device(torch::kCUDA);
}

void expect_close_solutions(const at::Tensor& gpu, const at::Tensor& cpu, double tolerance) {
  ASSERT_EQ(gpu.sizes(), cpu.sizes());
  if (cpu.numel() == 0) return;
  const auto difference = (gpu.cpu() - cpu).abs().max().item<double>();
  EXPECT_LE(difference, tolerance * (1.0 + cpu.abs().max().item<double>()));
}

TEST_F(SolversCuda, ObserveGivesTheNewestRowsDotsToo) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const int64_t dim : {1, 31, 2048, 2049, 10001}) {
      for (const int64_t count : {1, 2, 7, 64}) {
        SCOPED_TRACE(fmt::format("D = {}, rows = {}, {}", dim, count, type));
        const auto f = draw(3, dim, type), z = draw(3, dim, type);
        std::vector<at::Tensor> rows, gpu_rows;
        for (int64_t i = 0; i < count; ++i) {
          rows.push_back(draw(3, dim, type));
          gpu_rows.push_back(rows.back().cuda());
        }
        auto g = at::empty_like(z), gpu_g = at::empty_like(z).cuda();
        const auto sums = kernels::reference::observe(f, z, g, rows, rows.back());
        const auto gpu_sums = kernels::enqueue::observe(f.cuda(), z.cuda(), gpu_g, gpu_rows,
                                                        gpu_rows.back(), std::nullopt);
        expect_close_solutions(gpu_sums, sums, type == at::kFloat ? 1e-5 : 1e-13);
        EXPECT_TRUE(torch::equal(gpu_g.cpu(), g));
        // Only active samples are observed, with the same sums.
        const auto marks = at::tensor({1, 0, 3}, at::kByte).cuda();
        gpu_g.fill_(7);
        const auto some =
            kernels::enqueue::observe(f.cuda(), z.cuda(), gpu_g, gpu_rows, gpu_rows.back(), marks);
        for (const int64_t b : {0, 2}) {
          EXPECT_TRUE(torch::equal(some[b], gpu_sums[b]));
          EXPECT_TRUE(torch::equal(gpu_g[b].cpu(), g[b]));
        }
        EXPECT_TRUE((gpu_g[1] == 7).all().item<bool>());
      }
    }
  }
}

TEST_F(SolversCuda, AdvanceMatchesTheReference) {
  const auto marks = at::tensor({0, 1, 2, 3}, at::kByte);  // every combination
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const int64_t dim : {1, 31, 2049, 5000}) {
      for (const int64_t count : {1, 3, 64}) {
        for (const bool with_step : {false, true}) {
          SCOPED_TRACE(fmt::format("D = {}, rows = {}, step {}", dim, count, with_step));
          std::vector<at::Tensor> rows, gpu_rows;
          for (int64_t i = 0; i < count; ++i) {
            rows.push_back(draw(4, dim, type));
            if (i == 2) rows.back()[1].fill_(std::nan(""));
            gpu_rows.push_back(rows.back().cuda());
          }
          auto c = at::randn({4, count}, generator_, at::TensorOptions(at::kDouble));
          if (count > 2) c.select(1, 2).zero_();
          const auto z = draw(4, dim, type);
          auto best = draw(4, dim, type), step = at::zeros_like(z), next = at::zeros_like(z);
          auto gpu_best = best.cuda(), gpu_step = step.cuda(), gpu_next = next.cuda();
          const auto some = [&](at::Tensor& t) {
            return with_step ? std::optional(t) : std::nullopt;
          };
          kernels::reference::advance(rows, c, z, best, marks, some(step), next);
          kernels::enqueue::advance(gpu_rows, c.cuda(), z.cuda(), gpu_best, marks.cuda(),
                                    some(gpu_step), gpu_next);
          const double tolerance = type == at::kFloat ? 1e-5 : 1e-13;
          EXPECT_TRUE(torch::equal(gpu_best.cpu(), best));
          EXPECT_TRUE(torch::equal(gpu_best[2].cpu(), z[2]));
          EXPECT_TRUE(torch::equal(gpu_next[0].cpu(), best[0]));
          expect_close_solutions(gpu_next, next, tolerance);
          if (with_step) {
            expect_close_solutions(gpu_step[1], step[1], tolerance);
            expect_close_solutions(gpu_step[3], step[3], tolerance);
          }
          // Without a next iterate, only the best is kept.
          auto kept = draw(4, dim, type), gpu_kept = kept.cuda();
          kernels::reference::advance({}, c.narrow(1, 0, 0), z, kept, marks, {}, {});
          kernels::enqueue::advance({}, c.narrow(1, 0, 0).cuda(), z.cuda(), gpu_kept, marks.cuda(),
                                    {}, {});
          EXPECT_TRUE(torch::equal(gpu_kept.cpu(), kept));
        }
      }
    }
  }
}

TEST_F(SolversCuda, SamplesStopForEveryReasonAsTheyWould) {
  for (const int64_t dim : {5, 5003}) {
    const auto map = test::mixed_map(dim, generator_);
    for (const auto type : {at::kFloat, at::kDouble}) {
      const auto own = map.to(cuda(type));
      int index = 0;
      for (const auto& options : device_solvers({.rtol = 1e-10}, 60, {.stagnation_window = 12})) {
        SCOPED_TRACE(
            fmt::format("D = {}, {}, solver {}, {}", dim, type, index++, test::test_name(options)));
        expect_same_solve(options, own, torch::zeros_like(own.p));
      }
    }
  }
}

TEST_F(SolversCuda, EveryBudgetAndTolerance) {
  const auto map = test::mixed_map(5, generator_).to(cuda(at::kDouble));
  const auto tolerances = {Tolerance{.rtol = 1e-10}, Tolerance{.atol = 1e-6, .rtol = 0},
                           Tolerance{.rtol = 0.0},
                           Tolerance{.rtol = 1e-8, .scope = NormScope::WholeBatch}};
  for (const auto& tol : tolerances) {
    for (const int64_t budget : {1, 2, 3, 7, 20}) {
      SCOPED_TRACE(fmt::format("budget {}, atol {:g}, rtol {:g}", budget, tol.atol, tol.rtol));
      for (const auto& options : device_solvers(tol, budget)) {
        expect_same_solve(options, map, torch::zeros_like(map.p));
        const auto finite = map.rows(0, 3);
        expect_same_solve(options, finite, torch::zeros_like(finite.p));
      }
    }
  }
}

TEST_F(SolversCuda, ABatchOfManyBlocks) {
  const auto a =
      (torch::rand({700, 130}, generator_, test::f64()) * 1.8 - 0.9).to(cuda(at::kFloat));
  const Map f = [&](const torch::Tensor& z) { return a * z + 1; };
  for (const auto& options : device_solvers({.rtol = 1e-5}, 40)) {
    SCOPED_TRACE(test::test_name(options));
    expect_same_solve(options, f, torch::zeros_like(a));
  }
}

TEST_F(SolversCuda, TheCpusFixedPoint) {
  const auto problem = test::tanh_problem(6, 40, 0.9, generator_);
  const test::TanhMap gpu{problem.map.w.cuda(), problem.map.x.cuda()};
  for (const auto& options : device_solvers({.rtol = 1e-10}, 60)) {
    SCOPED_TRACE(test::test_name(options));
    const auto start = torch::zeros({6, 40}, test::f64());
    const auto cpu = Solver(options).solve({.f = problem.map}, start);
    const auto solution = Solver(options).solve({.f = gpu}, start.cuda());
    // Rounding decides where a solve ends that gets nowhere, or just about.
    if (cpu.report.evaluations > 45) continue;
    EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
    expect_close_solutions(solution.z, cpu.z, 1e-8);
    expect_close_solutions(solution.z, problem.z_star, 1e-8);
  }
}

TEST_F(SolversCuda, SolvesOneAfterTheOtherShareNothing) {
  const auto map = test::mixed_map(257, generator_).rows(0, 3).to(cuda(at::kFloat));
  for (const auto& options : device_solvers({.rtol = 1e-5}, 30)) {
    const Solver solver(options);
    std::vector<torch::Tensor> solutions, copies;
    for (int i = 0; i < 6; ++i) {
      const auto start = torch::full_like(map.p, 0.1 * (i % 2));
      solutions.push_back(solver.solve({.f = map}, start).z);
      copies.push_back(solutions.back().clone());
    }
    for (size_t i = 0; i < solutions.size(); ++i) {
      EXPECT_TRUE(solutions[i].equal(copies[i]));
      EXPECT_TRUE(solutions[i].equal(solutions[i % 2]));
    }
  }
}

}  // namespace
}  // namespace deq

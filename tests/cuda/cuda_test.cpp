#include <gtest/gtest.h>
#include <torch/torch.h>

#include "core/format.h"
#include "deq/deq.h"
#include "deq/models/toy.h"
#include "gpu_test.h"
#include "kernels/history/history.h"
#include "kernels/probes/probes.h"
#include "support/maps.h"
#include "support/solver_cases.h"

// What the CUDA plugin computes, against the CPU. Without a GPU every test here says so and is
// skipped.

namespace deq {
namespace {

class CudaTest : public test::GpuTest {
 protected:
  at::Tensor draw(int64_t batch, int64_t dim, at::ScalarType type) {
    return at::randn({batch, dim}, generator_, at::TensorOptions(at::kDouble)).to(type);
  }

  std::vector<at::Tensor> draw_rows(int64_t count, int64_t batch, int64_t dim,
                                    at::ScalarType type) {
    std::vector<at::Tensor> rows;
    for (int64_t i = 0; i < count; ++i) rows.push_back(draw(batch, dim, type));
    return rows;
  }
};

std::vector<at::Tensor> on_gpu(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const auto& tensor : tensors) result.push_back(tensor.cuda());
  return result;
}

void expect_close(const at::Tensor& gpu, const at::Tensor& cpu, double tolerance) {
  ASSERT_EQ(gpu.sizes(), cpu.sizes());
  if (cpu.numel() == 0) return;
  const auto difference = (gpu.cpu() - cpu).abs().max().item<double>();
  EXPECT_LE(difference, tolerance * (1.0 + cpu.abs().max().item<double>()));
}

// 70 rows take two launches; 2048 numbers are a tile.
TEST_F(CudaTest, KernelsMatchTheReference) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const double tolerance = type == at::kFloat ? 1e-5 : 1e-13;
    for (const int64_t dim : {1, 31, 2047, 2048, 2049, 10001}) {
      for (const int64_t count : {0, 1, 7, 64, 70}) {
        SCOPED_TRACE(fmt::format("D = {}, rows = {}, {}", dim, count, type));
        const int64_t batch = 3;
        const auto f = draw(batch, dim, type), z = draw(batch, dim, type);
        const auto rows = draw_rows(count, batch, dim, type);
        const auto gpu_rows = on_gpu(rows);

        auto g = at::empty_like(z), gpu_g = at::empty_like(z).cuda();
        const auto sums = kernels::reference::observe(f, z, g, rows);
        expect_close(kernels::observe(f.cuda(), z.cuda(), gpu_g, gpu_rows), sums, tolerance);
        EXPECT_TRUE(torch::equal(gpu_g.cpu(), g));
        expect_close(kernels::dots(z.cuda(), gpu_rows), kernels::reference::dots(z, rows),
                     tolerance);

        const auto weights = at::randn({batch, count}, generator_, at::TensorOptions(at::kDouble));
        auto out = at::empty_like(z), moved = at::empty_like(z);
        auto gpu_out = at::empty_like(gpu_g), gpu_moved = at::empty_like(gpu_g);
        const auto dots = kernels::reference::combine(rows, weights, out, z, moved, rows);
        const auto gpu_dots =
            kernels::combine_and_move(gpu_rows, weights, gpu_out, z.cuda(), gpu_moved, gpu_rows);
        expect_close(gpu_out, out, tolerance);
        expect_close(gpu_moved, moved, tolerance);
        expect_close(gpu_dots, dots, 10 * tolerance);
      }
    }
  }
}

TEST_F(CudaTest, AZeroCoefficientSkipsItsRow) {
  const auto nan = at::full({2, 5}, std::nan(""), at::kFloat).cuda();
  const auto row = draw(2, 5, at::kFloat).cuda();
  auto out = at::empty_like(row);
  kernels::combine({nan, row}, at::tensor({0.0, 1.0, 0.0, 2.0}, at::kDouble).view({2, 2}), out);
  EXPECT_TRUE(torch::equal(out[0], row[0]));
  EXPECT_TRUE(torch::equal(out[1], 2 * row[1]));
}

TEST_F(CudaTest, ProbesAreThoseOfTheCpu) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const int64_t dim : {1, 31, 32, 33, 257, 5000}) {
      for (const int64_t first_row : {0, 3, 1000001}) {
        SCOPED_TRACE(fmt::format("D = {}, first row {}, {}", dim, first_row, type));
        auto cpu = at::empty({7, dim}, type), gpu = cpu.cuda();
        const auto draw = [&](kernels::Probe kind) {
          kernels::draw_probe(cpu, kind, test::seed(), first_row);
          kernels::draw_probe(gpu, kind, test::seed(), first_row);
        };
        draw(kernels::Probe::Signs);
        EXPECT_TRUE(torch::equal(gpu.cpu(), cpu));
        draw(kernels::Probe::Normal);
        expect_close(gpu, cpu, type == at::kFloat ? 1e-6 : 1e-15);
      }
    }
  }
}

TEST_F(CudaTest, EverySolverFindsTheSameFixedPoint) {
  const auto problem = test::tanh_problem(4, 33, 0.9, generator_);
  const test::TanhMap gpu{problem.map.w.cuda(), problem.map.x.cuda()};
  for (const auto& options : test::every_solver({.rtol = 1e-10}, 500)) {
    SCOPED_TRACE(solver_name(options));
    const auto start = torch::zeros({4, 33}, test::f64().device(torch::kCUDA));
    const auto solution = Solver(options).solve({gpu}, start);
    EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
    EXPECT_TRUE(solution.z.is_cuda());
    expect_close(solution.z, problem.z_star, 1e-8);
  }
}

TEST_F(CudaTest, GradientsAndPenaltyMatchTheCpu) {
  const EquilibriumOptions options{
      .forward = Broyden{.tol = {.rtol = 1e-12}, .max_evals = 100},
      .gradient = Implicit{Broyden{.tol = {.rtol = 1e-12}, .max_evals = 100}}};
  const auto x = draw(16, 1, at::kDouble);
  std::vector<std::vector<torch::Tensor>> gradients;
  std::vector<double> radius;
  for (const auto device : {torch::kCPU, torch::kCUDA}) {
    Equilibrium layer(models::ToyCell(models::ToyOptions{}, test::generator(7)), options);
    layer->to(device, torch::kDouble);
    const auto eq = layer->forward(x.to(device));
    const auto loss =
        eq.z().square().sum() + jacobian_penalty(eq.linearization(), {}, test::generator(8));
    radius.push_back(spectral_radius(eq.linearization(), {}, test::generator(9)).mean());
    loss.backward();
    EXPECT_TRUE(eq.adjoint().converged()) << eq.adjoint().brief();
    gradients.emplace_back();
    for (const auto& parameter : layer->parameters()) gradients.back().push_back(parameter.grad());
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    expect_close(gradients[1][i], gradients[0][i], 1e-9);
  }
  EXPECT_NEAR(radius[0], radius[1], 1e-9);
}

}  // namespace
}  // namespace deq

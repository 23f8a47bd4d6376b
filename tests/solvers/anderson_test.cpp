#include <gtest/gtest.h>

#include "deq/solvers/solver.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq {
namespace {

using test::AffineMap;
using test::f64;

/// The iterates of one solve, [iterates, B, D].
std::vector<torch::Tensor> iterates(const SolverOptions& options, const Map& f,
                                    const torch::Tensor& start) {
  std::vector<torch::Tensor> seen;
  Solver(options).solve({.f = f}, start, [&](const Progress& progress) {
    seen.push_back(progress.z.clone());
    return true;
  });
  return seen;
}

class AndersonTest : public test::Seeded {};

TEST_F(AndersonTest, StepsAreTheTextbookFormula) {
  // α = (G + ridge·I)⁻¹1, normalised; z ← Σ α (z + β g), over the last m iterates of one sample.
  const auto problem = test::tanh_problem(1, 10, 0.95, generator_);
  const Anderson options{
      .memory = 4, .beta = 0.7, .ridge = 1e-3, .tol = {.rtol = 0}, .max_evals = 12};
  const auto seen = iterates(options, problem.map, torch::zeros({1, 10}, f64()));
  ASSERT_EQ(seen.size(), 12U);
  std::vector<torch::Tensor> z{seen[0][0]}, g;
  for (size_t k = 0; k + 1 < seen.size(); ++k) {
    g.push_back(problem.map(z[k].unsqueeze(0))[0] - z[k]);
    const size_t first = g.size() > 4 ? g.size() - 4 : 0;
    const auto residuals =
        torch::stack(std::vector(g.begin() + static_cast<int64_t>(first), g.end()));
    const auto points = torch::stack(std::vector(z.begin() + static_cast<int64_t>(first), z.end()));
    const auto gram = residuals.mm(residuals.t());
    const auto ridge = 1e-3 * gram.diagonal().mean() * torch::eye(gram.size(0), f64());
    auto alpha = torch::linalg_solve(gram + ridge, torch::ones({gram.size(0)}, f64()));
    alpha = alpha / alpha.sum();
    z.push_back(torch::mv((points + 0.7 * residuals).t(), alpha));
    EXPECT_LT(test::relative_difference(seen[k + 1][0], z.back()), 1e-10) << "iterate " << k + 1;
  }
}

TEST_F(AndersonTest, MemoryOfOneIsDampedPicard) {
  const auto problem = test::tanh_problem(3, 6, 0.9, generator_);
  const auto start = torch::zeros({3, 6}, f64());
  const auto anderson = iterates(
      Anderson{.memory = 1, .beta = 0.6, .tol = {.rtol = 0}, .max_evals = 20}, problem.map, start);
  const auto picard =
      iterates(Picard{.damping = 0.6, .tol = {.rtol = 0}, .max_evals = 20}, problem.map, start);
  ASSERT_EQ(anderson.size(), picard.size());
  for (size_t k = 0; k < picard.size(); ++k) {
    EXPECT_LT((anderson[k] - picard[k]).abs().max().item<double>(), 1e-15) << k;
  }
}

TEST_F(AndersonTest, SolvesAffineMapsInDimensionPlusTwo) {
  // Full memory and no ridge make it GMRES on (I − A) z = b.
  const AffineMap map{test::matrix_with_radius(6, 0.9, generator_),
                      torch::randn({4, 6}, generator_, f64())};
  const auto solution =
      Solver(Anderson{.memory = 7, .ridge = 0, .tol = {.rtol = 1e-8}, .max_evals = 40})
          .solve({.f = map}, torch::zeros({4, 6}, f64()));
  EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
  EXPECT_LE(solution.report.evaluations, 6 + 2);
}

TEST_F(AndersonTest, RelativeRidgeIsBlindToTheScaleOfZ) {
  // Scaling by a power of two is exact, so every iterate must be the scaled one, bit for bit.
  const AffineMap map{test::matrix_with_radius(5, 0.95, generator_),
                      torch::randn({2, 5}, generator_, f64())};
  const auto start = torch::zeros({2, 5}, f64());
  const Anderson options{.tol = {.rtol = 1e-10}, .max_evals = 60};
  const auto plain = Solver(options).solve({.f = map}, start);
  for (const double scale : {0x1p60, 0x1p-60}) {
    const auto scaled = Solver(options).solve({.f = AffineMap{map.a, map.b * scale}}, start);
    EXPECT_TRUE(scaled.z.equal(plain.z * scale)) << scale;
    EXPECT_EQ(scaled.report.evaluations, plain.report.evaluations);
  }
}

TEST_F(AndersonTest, AJumpInTheResidualRestartsThatSampleOnly) {
  const auto map = [](const torch::Tensor& z) { return 0.5 * torch::cos(z); };
  const auto solve = [&](int64_t jump_at) {
    return Solver(Anderson{.tol = {.rtol = 1e-12}, .max_evals = 80})
        .solve({.f =
                    [&, calls = int64_t{0}](const torch::Tensor& z) mutable {
                      auto value = map(z);
                      if (++calls == jump_at)
                        value[1] += 50;  // 50 is far above the best, below divergence
                      return value;
                    }},
               torch::linspace(0, 2, 8, f64()).view({2, 4}));
  };
  const auto smooth = solve(0), jumped = solve(5);
  EXPECT_EQ(smooth.report.restarts, 0);
  EXPECT_GE(jumped.report.restarts, 1);
  EXPECT_LE(jumped.report.restarts, 2);  // at the jump, and at most where the step from it led
  EXPECT_TRUE(jumped.report.converged()) << jumped.report.brief();
  EXPECT_TRUE(jumped.z[0].equal(smooth.z[0]));
}

TEST_F(AndersonTest, AcceleratesAgainAfterARestart) {
  // Plain steps diverge on this map, so a method that stays plain after a jump is lost. From the
  // jump on, no more is needed than from a cold start.
  const AffineMap map{
      test::matrix_with_eigenvalues({-1.5, 0.5, 0.4, 0.3, 0.2, 0.1, -0.1, -0.2}, generator_),
      torch::randn({1, 8}, generator_, f64())};
  const Anderson options{.memory = 6, .ridge = 1e-14, .tol = {.rtol = 1e-9}, .max_evals = 100};
  const auto start = torch::zeros({1, 8}, f64());
  const auto cold = Solver(options).solve({.f = map}, start);
  ASSERT_TRUE(cold.report.converged()) << cold.report.brief();
  const int64_t jump_at = cold.report.evaluations - 1;
  const auto jumped =
      Solver(options).solve({.f =
                                 [&, calls = int64_t{0}](const torch::Tensor& z) mutable {
                                   return map(z) + (++calls == jump_at ? 10.0 : 0.0);
                                 }},
                            start);
  EXPECT_GE(jumped.report.restarts, 1);
  EXPECT_TRUE(jumped.report.converged()) << jumped.report.brief();
  EXPECT_LE(jumped.report.evaluations, jump_at + cold.report.evaluations + 5);
}

struct Degenerate {
  const char* name;
  Map f;
  int64_t dim;
  bool solvable;
};

void PrintTo(const Degenerate& d, std::ostream* out) {
  *out << d.name;
}

class SingularGram : public test::SeededWith<std::tuple<Degenerate, double, torch::ScalarType>> {};

TEST_P(SingularGram, NeverThrows) {
  const auto& [map, ridge, type] = GetParam();
  for (const int64_t memory : {2, 5, 12}) {
    const auto start = torch::linspace(0.1, 0.9, 2 * map.dim, type).view({2, map.dim});
    const auto solution =
        Solver(Anderson{.memory = memory,
                        .ridge = ridge,
                        // Absolute: z + 1 has a relative fixed point at infinity.
                        .tol = {.atol = type == torch::kFloat32 ? 1e-4 : 1e-10, .rtol = 0},
                        .max_evals = 200})
            .solve({.f = map.f}, start);
    EXPECT_TRUE(torch::isfinite(solution.z).all().item<bool>());
    // (Where there is no fixed point, rounding may still make one far out.)
    EXPECT_TRUE(solution.report.converged() || !map.solvable) << solution.report.brief();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Maps, SingularGram,
    ::testing::Combine(
        ::testing::Values(Degenerate{"parallel residuals",
                                     [](const torch::Tensor& z) { return 0.9 * z + 1; }, 4, true},
                          Degenerate{"one dimension",
                                     [](const torch::Tensor& z) { return torch::cos(z); }, 1, true},
                          Degenerate{"a cycle of two", [](const torch::Tensor& z) { return 1 - z; },
                                     3, true},
                          Degenerate{"a cycle of three",
                                     [](const torch::Tensor& z) { return z.roll(1, 1); }, 3, true},
                          Degenerate{"constant residual",
                                     [](const torch::Tensor& z) { return z + 1; }, 3, false}),
        ::testing::Values(0.0, 1e-8), ::testing::Values(torch::kFloat32, torch::kFloat64)));

TEST_F(AndersonTest, SingularSystemsAreCounted) {
  const auto solution =
      Solver(Anderson{.memory = 3, .ridge = 0, .max_evals = 20})
          .solve({.f = [](const torch::Tensor& z) { return z + 1; }}, torch::zeros({1, 3}, f64()));
  EXPECT_GT(solution.report.ridge_raises, 0);
  EXPECT_EQ(solution.report.status, Status::MaxEvaluations);
}

// Squares of such residuals are denormal, and a ridge beside them is 0.
TEST_F(AndersonTest, EndsWhereResidualsAreTiny) {
  const auto f = [](const torch::Tensor& z) { return 0.5 * torch::tanh(z) + 1e-158; };
  const Solver solver(Anderson{.tol = {.rtol = 1e-6}, .max_evals = 60});
  const auto solution = solver.solve({f}, torch::zeros({1, 2}, test::f64()));
  EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
  // The square of a residual below 2.2e-162 is 0, and ρ is a half.
  EXPECT_NEAR(solution.z[0][0].item<double>(), 2e-158, 4.4e-162);
}

}  // namespace
}  // namespace deq

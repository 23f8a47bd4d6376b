#include <gtest/gtest.h>

#include "deq/solvers/solver.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq {
namespace {

using test::AffineMap;
using test::f64;

class NewtonKrylovTest : public test::Seeded {
 protected:
  /// J(z)·v of the map, counted.
  JacobianProduct product_of(const test::TanhMap& map) {
    return [this, map](const torch::Tensor& z, const torch::Tensor& v) {
      ++products_;
      return torch::bmm(map.jacobian(z), v.unsqueeze(2)).squeeze(2);
    };
  }
  int64_t products_ = 0;
};

TEST_F(NewtonKrylovTest, ConvergesQuadraticallyWithExactSystems) {
  const auto problem = test::tanh_problem(1, 10, 0.8, generator_);
  const auto start = problem.z_star + 0.05 * torch::randn({1, 10}, generator_, f64());
  const auto solution =
      Solver(NewtonKrylov{.forcing = 0, .tol = {.rtol = 1e-14}, .max_evals = 200})
          .solve({.f = problem.map, .jacobian_product = product_of(problem.map)}, start);
  ASSERT_TRUE(solution.report.converged()) << solution.report.brief();
  const auto& trace = solution.report.trace;
  EXPECT_LE(trace.size(), 8U);
  // ‖g_new‖ ≤ C‖g‖² with one C for the whole solve, down to rounding.
  double constant = 0;
  for (size_t k = 0; k + 1 < trace.size(); ++k) {
    const double now = trace[k].mean_absolute, next = trace[k + 1].mean_absolute;
    if (next > 1e-13) constant = std::max(constant, next / (now * now));
  }
  EXPECT_LT(constant, 200);
  EXPECT_LT(trace.back().mean_absolute, 1e-13);
}

TEST_F(NewtonKrylovTest, UsesTheProblemsProductsWhenThereAreAny) {
  const auto problem = test::tanh_problem(2, 6, 0.9, generator_);
  const test::CountingMap f{problem.map};
  const auto start = torch::zeros({2, 6}, f64());
  const Solver solver(NewtonKrylov{.tol = {.rtol = 1e-11}});
  const auto exact = solver.solve({.f = f, .jacobian_product = product_of(problem.map)}, start);
  ASSERT_TRUE(exact.report.converged()) << exact.report.brief();
  EXPECT_EQ(static_cast<size_t>(*f.calls), exact.report.trace.size());  // no probes
  EXPECT_GT(products_, 0);
  EXPECT_EQ(exact.report.evaluations, *f.calls + products_);

  const test::CountingMap counted{problem.map};
  const auto differences = solver.solve({.f = counted}, start);
  ASSERT_TRUE(differences.report.converged()) << differences.report.brief();
  EXPECT_EQ(differences.report.evaluations, *counted.calls);
  EXPECT_LT(static_cast<int64_t>(differences.report.trace.size()), *counted.calls);
}

TEST_F(NewtonKrylovTest, SolvesAffineMapsInOneStep) {
  for (const double radius : {0.99, 4.0}) {
    const AffineMap map{test::matrix_with_radius(7, radius, generator_),
                        torch::randn({3, 7}, generator_, f64())};
    const auto solution =
        Solver(NewtonKrylov{.forcing = 1e-13, .tol = {.rtol = 1e-10}})
            .solve({.f = map,
                    .jacobian_product = [&](const torch::Tensor&,
                                            const torch::Tensor& v) { return v.mm(map.a.t()); }},
                   torch::zeros({3, 7}, f64()));
    EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
    EXPECT_EQ(solution.report.trace.size(), 2U) << radius;
    EXPECT_EQ(solution.report.evaluations, 2 + 7);  // GMRES needs D products
    EXPECT_LT(test::relative_difference(solution.z, map.fixed_point()), 1e-9);
  }
}

TEST_F(NewtonKrylovTest, AnInexactDirectionStillConverges) {
  const auto problem = test::tanh_problem(2, 12, 0.7, generator_);
  for (const int64_t krylov_dim : {4, 8}) {
    const auto solution =
        Solver(NewtonKrylov{.krylov_dim = krylov_dim, .tol = {.rtol = 1e-10}, .max_evals = 1000})
            .solve({.f = problem.map}, torch::zeros({2, 12}, f64()));
    EXPECT_TRUE(solution.report.converged()) << krylov_dim << ": " << solution.report.brief();
  }
}

TEST_F(NewtonKrylovTest, LineSearchTamesOvershootingSteps) {
  // Newton on atan(z) = 0 runs away from any |z| > 1.39.
  const Map f = [](const torch::Tensor& z) { return z - torch::atan(z); };
  const auto solution = Solver(NewtonKrylov{.tol = {.atol = 1e-10, .rtol = 0}})
                            .solve({.f = f}, torch::tensor({{2.0}, {0.5}}, f64()));
  EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
  EXPECT_GT(solution.report.step_rejections, 0);
}

TEST_F(NewtonKrylovTest, FindsFixedPointsThatRepelPicard) {
  const auto problem = test::tanh_problem(3, 8, 2.5, generator_);
  const auto start = problem.z_star + 0.05 * torch::randn({3, 8}, generator_, f64());
  const auto solution =
      Solver(NewtonKrylov{.tol = {.rtol = 1e-11}}).solve({.f = problem.map}, start);
  EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
  EXPECT_LT(test::relative_difference(solution.z, problem.z_star), 1e-9);
}

TEST_F(NewtonKrylovTest, ASingularSystemNeitherThrowsNorPretends) {
  // f = z + 1 has I − J = 0 and no fixed point.
  const Map f = [](const torch::Tensor& z) { return z + 1; };
  const auto solution =
      Solver(NewtonKrylov{.max_evals = 60}).solve({.f = f}, torch::zeros({2, 3}, f64()));
  EXPECT_FALSE(solution.report.converged());
  EXPECT_TRUE(torch::isfinite(solution.z).all().item<bool>());
}

TEST_F(NewtonKrylovTest, AProbeThatIsNotFiniteDoesNotSpoilTheIterate) {
  // f is NaN at one evaluation only, which is a probe of the first system.
  const auto problem = test::tanh_problem(2, 6, 0.8, generator_);
  const auto start = problem.z_star + 0.05 * torch::randn({2, 6}, generator_, f64());
  const auto solution =
      Solver(NewtonKrylov{.tol = {.rtol = 1e-11}, .max_evals = 300})
          .solve({.f =
                      [&, calls = 0](const torch::Tensor& z) mutable {
                        auto value = problem.map(z);
                        if (++calls == 3) value[0].fill_(std::numeric_limits<double>::quiet_NaN());
                        return value;
                      }},
                 start);
  EXPECT_TRUE(solution.report.converged()) << solution.report.brief();
  EXPECT_LT(test::relative_difference(solution.z, problem.z_star), 1e-9);
}

}  // namespace
}  // namespace deq

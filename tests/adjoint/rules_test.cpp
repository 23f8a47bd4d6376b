#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "deq/adjoint/adjoint.h"
#include "support/maps.h"
#include "support/seed.h"
#include "support/solver_cases.h"
#include "support/solver_fixture.h"

// g → u, against dense algebra.

namespace deq {
namespace {

using test::f64;

class AdjointRules : public test::Seeded {
 protected:
  torch::Tensor draw(int64_t batch, int64_t dim) {
    return torch::randn({batch, dim}, generator_, f64());
  }
};

TEST_F(AdjointRules, ImplicitMatchesTheDenseSolve) {
  for (const double radius : {0.5, 0.9, 0.99}) {
    const auto problem = test::tanh_problem(3, 6, radius, generator_);
    const auto at = test::linearize(problem.map, problem.z_star);
    const auto g = draw(3, 6);
    const auto expected = test::dense_adjoint(problem.map.jacobian(problem.z_star), g);
    // A complex pair near the unit circle lets the residual pause: no stagnation guard.
    for (const auto& options :
         test::every_solver({.rtol = 1e-13}, 5000, {.stagnation_window = 0})) {
      Report report;
      const auto u = implicit_rule(Solver(options))(at, g, report);
      EXPECT_TRUE(report.converged()) << solver_name(options) << ": " << report.brief();
      // The error is the residual times the norm of (I − J)⁻¹.
      EXPECT_LT(test::relative_difference(u, expected), 1e-12 / (1 - radius))
          << solver_name(options) << ", radius " << radius;
    }
  }
}

TEST_F(AdjointRules, ImplicitWorksBeyondRadiusOne) {
  const auto problem = test::tanh_problem(2, 6, 1.8, generator_);
  const auto at = test::linearize(problem.map, problem.z_star);
  const auto g = draw(2, 6);
  const auto expected = test::dense_adjoint(problem.map.jacobian(problem.z_star), g);
  for (const auto& options : test::every_solver({.rtol = 1e-12}, 200)) {
    Report report;
    const auto u = implicit_rule(Solver(options))(at, g, report);
    if (std::holds_alternative<Picard>(options)) {
      EXPECT_EQ(report.status, Status::Diverged);  // named, and the best u is still handed out
      EXPECT_TRUE(torch::isfinite(u).all().item<bool>());
    } else {
      EXPECT_TRUE(report.converged()) << solver_name(options) << ": " << report.brief();
      EXPECT_LT(test::relative_difference(u, expected), 1e-10) << solver_name(options);
    }
  }
}

TEST_F(AdjointRules, ImplicitMatchesTheReferenceFixture) {
  const test::SolverFixture fixture;
  const auto at = test::linearize(fixture.map(), fixture.slab("zstar"));
  for (const auto& options : test::every_solver({.rtol = 1e-14}, 5000)) {
    Report report;
    const auto u = implicit_rule(Solver(options))(at, fixture["grad_in"], report);
    EXPECT_LT(test::relative_difference(u, fixture["implicit_u"]), 1e-11)
        << solver_name(options) << ": " << report.brief();
  }
}

TEST_F(AdjointRules, ImplicitsFirstProductIsThatOfG) {
  // u₀ = 0, u₁ = g: where J = 0 the first product already shows convergence.
  const auto value = draw(2, 3);
  const auto at = test::linearize([&](const torch::Tensor&) { return value; }, value);
  Report report;
  const auto g = draw(2, 3);
  const auto u = implicit_rule(Solver(Broyden{}))(at, g, report);
  EXPECT_TRUE(u.equal(g));
  EXPECT_EQ(report.evaluations, 1);
}

TEST_F(AdjointRules, ImplicitOfAZeroGradientIsZero) {
  const auto problem = test::tanh_problem(2, 4, 0.9, generator_);
  const auto at = test::linearize(problem.map, problem.z_star);
  for (const auto& options : test::every_solver({.rtol = 1e-6}, 50)) {
    Report report;
    const auto u = implicit_rule(Solver(options))(at, torch::zeros({2, 4}, f64()), report);
    EXPECT_TRUE(report.converged());
    EXPECT_TRUE(u.equal(torch::zeros({2, 4}, f64())));
  }
}

TEST_F(AdjointRules, SmallGradientsAreSolvedAsWellAsLargeOnes) {
  // Mean losses over large batches make small g; in float32 their squares are below the type's
  // range.
  const auto problem = test::tanh_problem(2, 64, 0.8, generator_);
  const test::TanhMap map{problem.map.w.to(torch::kFloat32), problem.map.x.to(torch::kFloat32)};
  const auto at = test::linearize(map, problem.z_star.to(torch::kFloat32));
  const auto g = draw(2, 64);
  const auto expected = test::dense_adjoint(problem.map.jacobian(problem.z_star), g);
  for (const double scale : {1.0, 0x1p-40, 0x1p-80}) {
    Report report;
    const auto u = implicit_rule(Solver(Broyden{.tol = {.rtol = 1e-5}}))(
        at, (g * scale).to(torch::kFloat32), report);
    EXPECT_TRUE(report.converged());
    EXPECT_LT(test::relative_difference(u / scale, expected), 1e-4) << scale;
  }
}

TEST_F(AdjointRules, TruncatedIsTheNeumannSum) {
  const auto problem = test::tanh_problem(3, 5, 0.9, generator_);
  const auto at = test::linearize(problem.map, problem.z_star);
  const auto g = draw(3, 5);
  const auto jacobian = problem.map.jacobian(problem.z_star);
  auto power = g.unsqueeze(1), sum = g.unsqueeze(1);
  for (int64_t terms = 0; terms <= 12; ++terms) {
    Report report;
    const auto u = truncated_rule(terms)(at, g, report);
    EXPECT_LT(test::relative_difference(u, sum.squeeze(1)), 1e-14) << terms;
    EXPECT_EQ(report.evaluations, terms);
    EXPECT_EQ(report.status, Status::MaxEvaluations);
    EXPECT_TRUE(report.samples.empty());
    power = torch::bmm(power, jacobian);
    sum = sum + power;
  }
}

TEST_F(AdjointRules, AttachingKeepsTheValueAndSendsUDownTheGraph) {
  auto problem = test::tanh_problem(2, 4, 0.9, generator_);
  problem.map.x.requires_grad_();
  const auto at = test::linearize(problem.map, problem.z_star);
  const auto report = std::make_shared<Report>();
  torch::Tensor seen;
  const auto rule = [&](const Linearization&, const torch::Tensor& g, Report& r) {
    seen = g.clone();
    r.evaluations = 7;
    return 3 * g;
  };
  const auto z = attach_adjoint(problem.z_star, at, rule, report);
  EXPECT_TRUE(z.equal(problem.z_star));
  EXPECT_EQ(report->evaluations, 0);
  const auto g = draw(2, 4);
  const auto gradient = torch::autograd::grad({z}, {problem.map.x}, {g})[0];
  EXPECT_TRUE(seen.equal(g));
  EXPECT_EQ(report->evaluations, 7);
  const auto expected = 3 * g * (1 - problem.z_star.square());
  EXPECT_LT(test::relative_difference(gradient, expected), 1e-14);
}

}  // namespace
}  // namespace deq

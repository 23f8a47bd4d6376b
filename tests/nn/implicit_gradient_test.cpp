#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "deq/nn/equilibrium.h"
#include "support/cells.h"
#include "support/differences.h"
#include "support/seed.h"
#include "support/solver_cases.h"

// The exact gradient three ways: the layer's, the dense formula u (I − J) = g, and differences of
// the loss itself.

namespace deq {
namespace {

using test::f64;

constexpr int64_t kImplicitGradientBatch = 3, kImplicitGradientDim = 5;

const Broyden kBroyden{.tol = {.rtol = 1e-13}, .max_evals = 200};
const NewtonKrylov kNewton{.tol = {.rtol = 1e-13}, .max_evals = 200};

struct Case {
  double radius;
  SolverOptions forward;
  double tolerance;  ///< relative, of the gradients
  double spacing;    ///< of the differences: at radius 0.99 a fold of z*(θ) is near
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << solver_name(c.forward) << ", radius " << c.radius;
}

class ImplicitGradient : public test::SeededWith<Case> {
 protected:
  ImplicitGradient()
      : problem_(test::cell_problem(kImplicitGradientBatch, kImplicitGradientDim, GetParam().radius,
                                    generator_)),
        weights_(torch::randn({kImplicitGradientBatch, kImplicitGradientDim}, generator_, f64())),
        // Near z*, so that every solve finds this fixed point and no other.
        start_(problem_.z_star + 1e-3 * torch::randn({kImplicitGradientBatch, kImplicitGradientDim},
                                                     generator_, f64())) {}

  Equilibrium layer(const SolverOptions& adjoint) const {
    return Equilibrium(problem_.cell, EquilibriumOptions{.forward = GetParam().forward,
                                                         .gradient = Implicit{.solver = adjoint}});
  }
  torch::Tensor loss(const torch::Tensor& z) const {
    return (weights_ * z).sum() + 0.5 * z.square().sum();
  }

  test::CellProblem problem_;
  torch::Tensor weights_, start_;
};

TEST_P(ImplicitGradient, MatchesDenseFormulaAndDifferences) {
  const auto& [radius, forward, tolerance, spacing] = GetParam();
  const auto x = problem_.x.clone().requires_grad_();
  const std::vector<torch::Tensor> variables{problem_.cell->w, problem_.cell->u, x};

  const auto g = weights_ + problem_.z_star;
  const auto dense = problem_.pull_back(test::dense_adjoint(problem_.jacobian(), g));
  // The loss itself, by a solver that keeps to this fixed point.
  Equilibrium newton(problem_.cell, EquilibriumOptions{.forward = kNewton});
  const auto value = [&] {
    const torch::NoGradGuard no_grad;
    const auto eq = newton->forward({x}, {.start = {problem_.z_star}});
    EXPECT_TRUE(eq.report.converged()) << eq.report.brief();
    return loss(eq.z()).item<double>();
  };
  for (size_t i = 0; i < variables.size(); ++i) {
    const auto numeric = test::numeric_gradient(value, variables[i], spacing);
    EXPECT_LT(test::relative_difference(numeric, dense[i]), 1e-6) << "differences, variable " << i;
  }

  // A complex pair near the unit circle lets the residual pause: no stagnation guard.
  for (const auto& adjoint : test::every_solver({.rtol = 1e-13}, 6000, {.stagnation_window = 0})) {
    if (radius > 1 && std::holds_alternative<Picard>(adjoint)) continue;
    SCOPED_TRACE(solver_name(adjoint));
    const auto eq = layer(adjoint)->forward({x}, {.start = {start_}});
    ASSERT_TRUE(eq.report.converged()) << eq.report.brief();
    EXPECT_LT(test::relative_difference(eq.z(), problem_.z_star), tolerance);
    EXPECT_EQ(eq.adjoint().status, Status::NotRun);
    const auto gradients = torch::autograd::grad({loss(eq.z())}, variables);
    EXPECT_TRUE(eq.adjoint().converged()) << eq.adjoint().brief();
    EXPECT_EQ(static_cast<int64_t>(eq.adjoint().samples.size()), kImplicitGradientBatch);
    EXPECT_GT(eq.adjoint().evaluations, 1);
    for (size_t i = 0; i < variables.size(); ++i) {
      EXPECT_LT(test::relative_difference(gradients[i], dense[i]), tolerance) << "variable " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Radii, ImplicitGradient,
    ::testing::Values(Case{0.5, kBroyden, 1e-11, 1e-4}, Case{0.9, kBroyden, 1e-11, 1e-4},
                      Case{0.99, kBroyden, 1e-9, 1e-6}, Case{0.99, kNewton, 1e-9, 1e-6},
                      Case{1.5, kBroyden, 1e-10, 1e-5}, Case{1.5, kNewton, 1e-10, 1e-5}));

class PairGradient : public test::Seeded {};

TEST_F(PairGradient, TwoTensorsOfDifferentShapes) {
  const test::PairCell cell(4, generator_);
  const auto x = torch::randn({2, 4}, generator_, f64()).requires_grad_();
  const auto wa = torch::randn({2, 4}, generator_, f64());
  const auto wc = torch::randn({2, 2, 3}, generator_, f64());
  const SolverOptions tight = Broyden{.tol = {.rtol = 1e-14}, .max_evals = 200};
  Equilibrium layer(cell,
                    EquilibriumOptions{.forward = tight, .gradient = Implicit{.solver = tight}});
  const auto loss = [&](const Equilibrated& eq) {
    return (wa * eq.state[0]).sum() + (wc * eq.state[1].square()).sum();
  };
  const auto eq = layer->forward(x);
  ASSERT_TRUE(eq.report.converged()) << eq.report.brief();
  ASSERT_EQ(eq.state.size(), 2U);
  EXPECT_EQ(eq.state[1].sizes(), wc.sizes());
  const std::vector<torch::Tensor> variables{cell->w, cell->s, x};
  const auto gradients = torch::autograd::grad({loss(eq)}, variables);
  const auto value = [&] {
    const torch::NoGradGuard no_grad;
    return loss(layer->forward(x)).item<double>();
  };
  for (size_t i = 0; i < variables.size(); ++i) {
    EXPECT_LT(
        test::relative_difference(gradients[i], test::numeric_gradient(value, variables[i], 3e-4)),
        1e-9)
        << i;
  }
}

TEST_F(PairGradient, ALossOnOneOfThemAlone) {
  const test::PairCell cell(3, generator_);
  const auto x = torch::randn({2, 3}, generator_, f64()).requires_grad_();
  const SolverOptions tight = Broyden{.tol = {.rtol = 1e-14}, .max_evals = 200};
  Equilibrium layer(cell,
                    EquilibriumOptions{.forward = tight, .gradient = Implicit{.solver = tight}});
  const auto gradient = torch::autograd::grad({layer->forward(x).state[1].sum()}, {x})[0];
  const auto value = [&] {
    const torch::NoGradGuard no_grad;
    return layer->forward(x).state[1].sum().item<double>();
  };
  EXPECT_LT(test::relative_difference(gradient, test::numeric_gradient(value, x, 1e-3)), 1e-9);
}

}  // namespace
}  // namespace deq

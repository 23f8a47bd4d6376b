#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "deq/jacobian/frobenius.h"
#include "deq/nn/equilibrium.h"
#include "support/cells.h"
#include "support/dense_broyden.h"
#include "support/seed.h"

// The layer with SHINE's gradient: the adjoint from the forward solve's inverse.

namespace deq {
namespace {

using test::f64;

constexpr int64_t kShineBatch = 3, kShineDim = 8;
const Broyden kShineForward{.tol = {.rtol = 0}, .max_evals = 9};

class ShineLayer : public test::Seeded {
 protected:
  ShineLayer()
      : problem_(test::cell_problem(kShineBatch, kShineDim, 0.9, generator_)),
        weights_(torch::randn({kShineBatch, kShineDim}, generator_, f64())),
        x_(problem_.x.clone().requires_grad_()),
        variables_{problem_.cell->w, problem_.cell->u, x_} {}

  Equilibrated run(const Shine& gradient, const SolverOptions& forward = kShineForward) {
    Equilibrium layer(problem_.cell, EquilibriumOptions{.forward = forward, .gradient = gradient});
    return layer->forward(x_);
  }
  std::vector<torch::Tensor> gradients(const torch::Tensor& z) const {
    return torch::autograd::grad({(weights_ * z).sum()}, variables_);
  }

  test::CellProblem problem_;
  torch::Tensor weights_, x_;
  std::vector<torch::Tensor> variables_;
};

TEST_F(ShineLayer, PullsBackTheProductWithTheDenseInverse) {
  const auto eq = run(Shine{.fallback = 1e9});
  const auto own = gradients(eq.z());
  EXPECT_EQ(eq.adjoint().evaluations, 0);
  EXPECT_EQ(eq.adjoint().fallbacks, 0);
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> rows;
  for (int64_t b = 0; b < kShineBatch; ++b) {
    const auto x = x_.narrow(0, b, 1);
    const Map f = [&](const torch::Tensor& z) {
      return problem_.cell->step({z}, problem_.cell->prepare({x}))[0];
    };
    const auto inverse =
        test::dense_broyden(f, torch::zeros({kShineDim}, f64()), kShineForward).inverse;
    rows.push_back(-weights_.narrow(0, b, 1).mm(inverse));
  }
  // At the state of this solve, not at the equilibrium that it comes near to.
  const auto expected =
      test::CellProblem{problem_.cell, x_.detach(), eq.linearization().z().detach()};
  const auto u = torch::cat(rows);
  const auto f_of_z = problem_.cell->step({expected.z_star}, problem_.cell->prepare({x_}))[0];
  const auto inner = u * (1 - f_of_z.square());
  EXPECT_LT(test::relative_difference(own[0], inner.t().mm(expected.z_star)), 1e-8);
  EXPECT_LT(test::relative_difference(own[1], inner.t().mm(x_)), 1e-8);
  EXPECT_LT(test::relative_difference(own[2], inner.mm(problem_.cell->u)), 1e-8);
}

TEST_F(ShineLayer, EverySampleMayFallBackToTheJacobianFreeGradient) {
  const auto eq = run(Shine{.fallback = 1e-9});
  const auto own = gradients(eq.z());
  EXPECT_EQ(eq.adjoint().fallbacks, kShineBatch);
  Equilibrium plain(problem_.cell,
                    EquilibriumOptions{.forward = kShineForward, .gradient = JacobianFree{}});
  const auto expected = gradients(plain->forward(x_).z());
  for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(own[i].equal(expected[i])) << i;
}

TEST_F(ShineLayer, RefinedItIsTheExactGradient) {
  const Broyden tight{.tol = {.rtol = 1e-13}, .max_evals = 300};
  Equilibrium layer(
      problem_.cell,
      EquilibriumOptions{.forward = tight, .gradient = Shine{.fallback = 10, .refinement = tight}});
  // Near the equilibrium that is known: there may be others.
  const auto eq = layer->forward({x_}, {.start = {problem_.z_star + 0.05 * weights_}});
  ASSERT_LT(test::relative_difference(eq.z(), problem_.z_star), 1e-10);
  const auto own = gradients(eq.z());
  EXPECT_TRUE(eq.adjoint().converged()) << eq.adjoint().brief();
  const auto exact = problem_.pull_back(test::dense_adjoint(problem_.jacobian(), weights_));
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_LT(test::relative_difference(own[i], exact[i]), 1e-10) << i;
  }
}

/// Where a few directions are slow the forward solve has met them, and so little is left to do.
/// (Where many are, or much accuracy is asked for, a solve from zero is as good.)
TEST_F(ShineLayer, ARefinementNeedsFewerProductsThanASolveFromZero) {
  constexpr int64_t kWide = 20;
  const Broyden forward{.tol = {.rtol = 1e-10}, .max_evals = 100};
  const Broyden adjoint{.tol = {.rtol = 0.1}, .max_evals = 100};
  auto slow = torch::zeros({kWide}, f64());
  slow[0] = 0.95;
  slow[1] = -0.9;
  int64_t refined = 0, from_zero = 0;
  for (int i = 0; i < 12; ++i) {
    const auto basis = test::orthogonal(kWide, generator_);
    const test::TanhCell cell(basis.mm(slow.diag()).mm(basis.t()), torch::eye(kWide, f64()));
    const auto x = 0.1 * torch::randn({1, kWide}, generator_, f64());
    const auto g = torch::randn({1, kWide}, generator_, f64());
    const auto products = [&](const GradientOptions& gradient) {
      Equilibrium layer(cell, EquilibriumOptions{.forward = forward, .gradient = gradient});
      const auto eq = layer->forward(x);
      eq.z().backward(g);
      EXPECT_TRUE(eq.adjoint().converged()) << eq.adjoint().brief();
      return eq.adjoint().evaluations;
    };
    refined += products(Shine{.fallback = 1e9, .refinement = adjoint});
    from_zero += products(Implicit{.solver = adjoint});
  }
  EXPECT_LT(static_cast<double>(refined), 0.75 * static_cast<double>(from_zero));
}

TEST_F(ShineLayer, OtherForwardSolversAreRefusedInOneSentence) {
  const char* const sentence =
      "the gradient shine reads the inverse that a forward solve by broyden builds; this one, by "
      "anderson, builds none";
  EXPECT_THAT([&] { run(Shine{}, Anderson{}); },
              ::testing::ThrowsMessage<Error>(::testing::StrEq(sentence)));
  Equilibrium layer(problem_.cell,
                    EquilibriumOptions{.forward = kShineForward, .gradient = Shine{}});
  const Solver anderson(Anderson{});
  EXPECT_THAT([&] { layer->forward({x_}, {.solver = &anderson}); },
              ::testing::ThrowsMessage<Error>(::testing::StrEq(sentence)));
  const torch::NoGradGuard no_grad;
  EXPECT_NO_THROW(layer->forward({x_}, {.solver = &anderson}));
}

TEST_F(ShineLayer, ServesTwoCallsInOneGraphAndAPenalty) {
  Equilibrium layer(problem_.cell,
                    EquilibriumOptions{.forward = kShineForward, .gradient = Shine{}});
  const auto alone = [&](double scale) {
    const auto eq = layer->forward(scale * x_);
    return torch::autograd::grad({(weights_ * eq.z()).sum()}, {x_})[0];
  };
  const auto penalty_alone = [&] {
    const auto eq = layer->forward(x_);
    return torch::autograd::grad({jacobian_penalty(eq.linearization(), {}, ProbeKey{.key = 3})},
                                 {x_})[0];
  };
  const auto expected = alone(1.0) + alone(0.5) + penalty_alone();
  const auto first = layer->forward(x_), second = layer->forward(0.5 * x_);
  const auto loss = (weights_ * (first.z() + second.z())).sum() +
                    jacobian_penalty(first.linearization(), {}, ProbeKey{.key = 3});
  const auto both = torch::autograd::grad({loss}, {x_})[0];
  EXPECT_LT(test::relative_difference(both, expected), 1e-12);
}

TEST_F(ShineLayer, ASecondBackwardNeedsARetainedGraph) {
  const auto loss = run(Shine{}).z().sum();
  loss.backward({}, /*retain_graph=*/true);
  const auto once = x_.grad().clone();
  loss.backward();
  EXPECT_TRUE(x_.grad().equal(2 * once));
  EXPECT_THAT([&] { loss.backward(); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("a second time")));
}

}  // namespace
}  // namespace deq

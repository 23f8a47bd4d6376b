#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "deq/nn/equilibrium.h"
#include "support/cells.h"
#include "support/differences.h"
#include "support/seed.h"

// The gradients that are not the exact one: each against its own formula.

namespace deq {
namespace {

using test::f64;

constexpr int64_t kOtherGradientsBatch = 2, kOtherGradientsDim = 4;
const SolverOptions kTight = Broyden{.tol = {.rtol = 1e-14}, .max_evals = 300};

class OtherGradients : public test::Seeded {
 protected:
  OtherGradients()
      : problem_(test::cell_problem(kOtherGradientsBatch, kOtherGradientsDim, 0.9, generator_)),
        weights_(torch::randn({kOtherGradientsBatch, kOtherGradientsDim}, generator_, f64())),
        x_(problem_.x.clone().requires_grad_()),
        variables_{problem_.cell->w, problem_.cell->u, x_} {}

  Equilibrated run(const GradientOptions& gradient, const SolverOptions& forward = kTight) {
    Equilibrium layer(problem_.cell, EquilibriumOptions{.forward = forward, .gradient = gradient});
    return layer->forward({x_}, {.start = {problem_.z_star}});
  }
  std::vector<torch::Tensor> gradients(const torch::Tensor& z) const {
    return torch::autograd::grad({(weights_ * z).sum()}, variables_);
  }
  torch::Tensor f(const torch::Tensor& z) const {
    const auto& cell = *problem_.cell;
    return torch::tanh(z.mm(cell.w.t()) + x_.mm(cell.u.t()));
  }
  void expect_same(const std::vector<torch::Tensor>& own,
                   const std::vector<torch::Tensor>& expected, double tolerance) const {
    for (size_t i = 0; i < variables_.size(); ++i) {
      EXPECT_LT(test::relative_difference(own[i], expected[i]), tolerance) << "variable " << i;
    }
  }

  test::CellProblem problem_;
  torch::Tensor weights_, x_;
  std::vector<torch::Tensor> variables_;
};

TEST_F(OtherGradients, TruncatedIsTheNeumannSum) {
  const auto jacobian = problem_.jacobian();
  auto power = weights_.unsqueeze(1), sum = weights_.unsqueeze(1);
  for (int64_t terms = 0; terms <= 6; ++terms) {
    const auto eq = run(Truncated{.terms = terms});
    EXPECT_EQ(eq.adjoint().status, Status::NotRun);
    expect_same(gradients(eq.z()), problem_.pull_back(sum.squeeze(1)), 1e-12);
    EXPECT_EQ(eq.adjoint().status, Status::MaxEvaluations);
    EXPECT_EQ(eq.adjoint().evaluations, terms);
    power = torch::bmm(power, jacobian);
    sum = sum + power;
  }
}

TEST_F(OtherGradients, TruncatedTendsToTheExactOne) {
  const auto exact = problem_.pull_back(test::dense_adjoint(problem_.jacobian(), weights_));
  expect_same(gradients(run(Truncated{.terms = 400}).z()), exact, 1e-11);
}

TEST_F(OtherGradients, JacobianFreeTakesGAsItIs) {
  expect_same(gradients(run(JacobianFree{}).z()), problem_.pull_back(weights_), 1e-13);
}

TEST_F(OtherGradients, PhantomIsBackpropagationThroughDampedSteps) {
  for (const auto& [steps, tau] : {std::pair<int64_t, double>{1, 1.0}, {3, 0.5}, {6, 0.8}}) {
    const auto eq = run(Phantom{.steps = steps, .tau = tau});
    auto z = problem_.z_star;
    for (int64_t k = 0; k < steps; ++k) z = (1 - tau) * z + tau * f(z);
    EXPECT_LT(test::relative_difference(eq.z(), z), 1e-13);
    expect_same(gradients(eq.z()), gradients(z), 1e-13);
    EXPECT_EQ(eq.adjoint().status, Status::NotRun);  // there is no adjoint solve
  }
}

TEST_F(OtherGradients, PhantomWithOneFullStepIsJacobianFree) {
  expect_same(gradients(run(Phantom{.steps = 1, .tau = 1}).z()), gradients(run(JacobianFree{}).z()),
              1e-12);
}

TEST_F(OtherGradients, PhantomWithoutGradientIsTheFixedPoint) {
  const torch::NoGradGuard no_grad;
  // A loose solve from afar: damped steps after it would show.
  Equilibrium layer(problem_.cell,
                    EquilibriumOptions{.forward = Picard{.max_evals = 3}, .gradient = Phantom{}});
  const auto eq = layer->forward(x_);
  const auto solution = Solver(Picard{.max_evals = 3})
                            .solve({.f = [&](const torch::Tensor& z) { return f(z); }},
                                   torch::zeros({kOtherGradientsBatch, kOtherGradientsDim}, f64()));
  EXPECT_LT(test::relative_difference(eq.z(), solution.z), 1e-14);
}

TEST_F(OtherGradients, UnrolledIsBackpropagationThroughPlainSteps) {
  for (const int64_t steps : {1, 4, 9}) {
    Equilibrium layer(problem_.cell,
                      EquilibriumOptions{.forward = kTight, .gradient = Unrolled{.steps = steps}});
    const auto eq = layer->forward({x_}, {.start = {weights_}});
    auto z = weights_;
    for (int64_t k = 0; k < steps; ++k) z = f(z);
    EXPECT_LT(test::relative_difference(eq.z(), z), 1e-14);
    const auto own = gradients(eq.z());
    expect_same(own, gradients(z), 1e-13);
    const auto value = [&] {
      const torch::NoGradGuard no_grad;
      return (weights_ * layer->forward({x_}, {.start = {weights_}}).z()).sum().item<double>();
    };
    for (size_t i = 0; i < variables_.size(); ++i) {
      EXPECT_LT(
          test::relative_difference(own[i], test::numeric_gradient(value, variables_[i], 1e-3)),
          1e-8);
    }
  }
}

TEST_F(OtherGradients, OnlyTheLastUnrolledStepsMayHaveAGradient) {
  for (const int64_t last : {1, 2, 5}) {
    const auto eq = run(Unrolled{.steps = 5, .backpropagated = last});
    auto z = problem_.z_star;
    for (int64_t k = 0; k < 5; ++k) z = k < 5 - last ? f(z).detach() : f(z);
    EXPECT_LT(test::relative_difference(eq.z(), z), 1e-14) << last;
    expect_same(gradients(eq.z()), gradients(z), 1e-13);
  }
}

TEST_F(OtherGradients, UnrolledCanBeDifferentiatedTwice) {
  const auto eq = run(Unrolled{.steps = 3});
  const auto first =
      torch::autograd::grad({(weights_ * eq.z()).sum()}, {x_}, {}, true, /*create_graph=*/true)[0];
  const auto second = torch::autograd::grad({first.square().sum()}, {x_})[0];
  auto z = problem_.z_star;
  for (int k = 0; k < 3; ++k) z = f(z);
  const auto plain = torch::autograd::grad({(weights_ * z).sum()}, {x_}, {}, true, true)[0];
  EXPECT_LT(
      test::relative_difference(second, torch::autograd::grad({plain.square().sum()}, {x_})[0]),
      1e-12);
}

TEST_F(OtherGradients, UnrolledReportsTheStateItReturns) {
  const auto eq = run(Unrolled{.steps = 4});
  EXPECT_EQ(eq.report.evaluations, 5);  // four steps, and one to measure
  const auto residual =
      test::residuals([&](const torch::Tensor& z) { return f(z); }, eq.z().detach());
  for (int64_t b = 0; b < kOtherGradientsBatch; ++b) {
    const auto& sample = eq.report.samples[static_cast<size_t>(b)];
    const double relative = residual.relative[b].item<double>();
    EXPECT_NEAR(sample.relative, relative, 1e-9 * relative + 1e-15);
    EXPECT_EQ(sample.evaluations, eq.report.evaluations);
  }
  EXPECT_EQ(eq.report.trace.back().evaluations, eq.report.evaluations);
}

TEST_F(OtherGradients, UnrolledReportsTheStateBeforeForNothing) {
  Equilibrium layer(problem_.cell,
                    EquilibriumOptions{.gradient = Unrolled{.steps = 4, .measured = false}});
  const auto steps = problem_.cell->steps.load();
  const auto eq = layer->forward({x_}, {.start = {weights_}});
  EXPECT_EQ(problem_.cell->steps, steps + 4);
  EXPECT_EQ(eq.report.evaluations, 4);
  auto before = weights_;
  for (int k = 0; k < 3; ++k) before = f(before);
  EXPECT_LT(test::relative_difference(eq.z(), f(before)), 1e-14);
  const auto residual =
      test::residuals([&](const torch::Tensor& z) { return f(z); }, before.detach());
  for (int64_t b = 0; b < kOtherGradientsBatch; ++b) {
    const auto& sample = eq.report.samples[static_cast<size_t>(b)];
    EXPECT_NEAR(sample.relative, residual.relative[b].item<double>(), 1e-12);
    EXPECT_EQ(sample.evaluations, 4);
  }
  // What is linearised is the state returned all the same.
  EXPECT_TRUE(eq.linearization().z().equal(eq.z().detach()));
}

TEST_F(OtherGradients, UnrolledLayersCanBeSolvedToo) {
  Equilibrium layer(problem_.cell, EquilibriumOptions{.gradient = Unrolled{.steps = 2}});
  const Solver solver(kTight);
  const auto eq = layer->forward({x_}, {.solver = &solver});
  EXPECT_TRUE(eq.report.converged()) << eq.report.brief();
}

}  // namespace
}  // namespace deq

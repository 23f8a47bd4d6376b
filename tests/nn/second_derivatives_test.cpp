#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/linear.h>

#include "deq/core/error.h"
#include "deq/core/precision.h"
#include "deq/jacobian/frobenius.h"
#include "deq/nn/equilibrium.h"
#include "deq/nn/fixed_point.h"
#include "support/cells.h"
#include "support/differences.h"
#include "support/seed.h"

// Implicit::twice: gradients of gradients, against differences of gradients and against unrolled
// steps.

namespace deq {
namespace {

using test::f64;
using test::PairCell;

constexpr int64_t kTwiceBatch = 2, kTwiceDim = 4;

class SecondDerivatives : public test::Seeded {
 protected:
  static SolverOptions tight() { return Broyden{.tol = {.rtol = 1e-14}, .max_evals = 200}; }

  SecondDerivatives()
      : problem_(test::cell_problem(kTwiceBatch, kTwiceDim, 0.6, generator_)),
        x_(problem_.x.clone().requires_grad_()),
        variables_{problem_.cell->w, problem_.cell->u, x_} {
    for (const auto& variable : variables_) {
      directions_.push_back(torch::randn(variable.sizes(), generator_, f64()));
    }
  }

  Equilibrium layer(bool one_more_step = true, bool twice = true) {
    return Equilibrium(problem_.cell,
                       EquilibriumOptions{.forward = tight(),
                                          .gradient = Implicit{.solver = tight(), .twice = twice},
                                          .one_more_step = one_more_step});
  }

  /// How the loss grows along the directions, with a graph of its own or without.
  torch::Tensor slope(const torch::Tensor& loss, bool create_graph) {
    const auto gradients = torch::autograd::grad({loss}, variables_, {}, true, create_graph);
    auto sum = torch::zeros({}, f64());
    for (size_t i = 0; i < gradients.size(); ++i) sum = sum + (gradients[i] * directions_[i]).sum();
    return sum;
  }

  /// The derivatives of `analytic`, against differences of what `value` gives.
  void expect_derivatives(const torch::Tensor& analytic, const std::function<double()>& value) {
    const auto gradients = torch::autograd::grad({analytic}, variables_, {}, true);
    const auto with_graph = [&] {
      const torch::AutoGradMode grad(true);
      return value();
    };
    for (size_t i = 0; i < variables_.size(); ++i) {
      const auto expected = test::numeric_gradient(with_graph, variables_[i], 2e-4);
      EXPECT_LT(test::relative_difference(gradients[i], expected), 1e-6) << "variable " << i;
    }
  }

  test::CellProblem problem_;
  torch::Tensor x_;
  std::vector<torch::Tensor> variables_, directions_;
};

TEST_F(SecondDerivatives, AreThoseOfDifferences) {
  for (const bool one_more_step : {false, true}) {
    auto twice = layer(one_more_step), once = layer(one_more_step, /*twice=*/false);
    const auto loss = [&](Equilibrium& used) { return used->forward(x_).z().pow(3).sum(); };
    expect_derivatives(slope(loss(twice), true),
                       [&] { return slope(loss(once), false).item<double>(); });
  }
}

TEST_F(SecondDerivatives, AreThoseOfUnrolledSteps) {
  Equilibrium unrolled(problem_.cell, EquilibriumOptions{.gradient = Unrolled{.steps = 120}});
  auto twice = layer();
  const auto second = [&](Equilibrium& used) {
    return torch::autograd::grad({slope(used->forward(x_).z().exp().sum(), true)}, variables_);
  };
  const auto found = second(twice), expected = second(unrolled);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LT(test::relative_difference(found[i], expected[i]), 1e-10) << "variable " << i;
  }
}

TEST_F(SecondDerivatives, AndSoAreThird) {
  auto twice = layer();
  const auto second = [&](bool create_graph) {
    const auto gradients = torch::autograd::grad({slope(twice->forward(x_).z().pow(3).sum(), true)},
                                                 variables_, {}, true, create_graph);
    auto sum = torch::zeros({}, f64());
    for (size_t i = 0; i < gradients.size(); ++i) sum = sum + (gradients[i] * directions_[i]).sum();
    return sum;
  };
  expect_derivatives(second(true), [&] { return second(false).item<double>(); });
}

// What a loss with a gradient penalty is: both orders in one backward pass, behind inputs that have
// a history, and through two layers.
TEST_F(SecondDerivatives, OfALossWithAGradientPenaltyThroughTwoLayers) {
  auto twice = layer(), once = layer(true, /*twice=*/false);
  const auto value = [&](Equilibrium& used, bool create_graph) {
    const auto inner = used->forward(x_.sin() + 0.1);
    const auto loss = used->forward(inner.z() * 0.5 + x_).z().pow(2).sum();
    const auto gradient = torch::autograd::grad({loss}, {x_}, {}, true, create_graph)[0];
    return loss + 0.3 * gradient.square().sum();
  };
  expect_derivatives(value(twice, true), [&] { return value(once, false).item<double>(); });
}

// f has captured a tensor with a history, which no list of inputs names.
TEST_F(SecondDerivatives, OfAnyFunction) {
  const auto z_of = [&](bool twice) {
    const auto injected = torch::matmul(x_.sin(), problem_.cell->u.t());
    const auto f = [&, injected](const torch::Tensor& z) {
      return torch::tanh(torch::matmul(z, problem_.cell->w.t()) + injected);
    };
    return fixed_point(
               f, torch::zeros_like(problem_.z_star),
               {.forward = tight(), .gradient = Implicit{.solver = tight(), .twice = twice}})
        .z();
  };
  expect_derivatives(slope(z_of(true).pow(3).sum(), true),
                     [&] { return slope(z_of(false).pow(3).sum(), false).item<double>(); });
}

TEST_F(SecondDerivatives, OfSeveralStates) {
  const PairCell cell(kTwiceDim, generator_);
  const auto make = [&](bool twice) {
    return Equilibrium(cell,
                       EquilibriumOptions{.forward = tight(),
                                          .gradient = Implicit{.solver = tight(), .twice = twice}});
  };
  auto twice = make(true), once = make(false);
  const auto value = [&](Equilibrium& used, bool create_graph) {
    const auto eq = used->forward(x_);
    const auto loss = eq.state[0].pow(3).sum() + (eq.state[1] * eq.state[1]).sum();
    return torch::autograd::grad({loss}, {x_}, {}, true, create_graph)[0].square().sum();
  };
  const auto gradient = torch::autograd::grad({value(twice, true)}, {x_})[0];
  const auto expected = test::numeric_gradient(
      [&] {
        const torch::AutoGradMode grad(true);
        return value(once, false).item<double>();
      },
      x_, 2e-4);
  EXPECT_LT(test::relative_difference(gradient, expected), 1e-6);
}

TEST_F(SecondDerivatives, TheFirstAreAsWithoutThem) {
  auto twice = layer(), once = layer(true, /*twice=*/false);
  const auto gradients = [&](Equilibrium& used) {
    return torch::autograd::grad({used->forward(x_).z().pow(3).sum()}, variables_);
  };
  const auto found = gradients(twice), expected = gradients(once);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

TEST_F(SecondDerivatives, WhatFDoesNotUseHasNoGradient) {
  const auto unused = problem_.cell->register_parameter("unused", torch::ones({2}, f64()));
  int calls = 0, calls_of_unused = 0;
  unused.register_hook([&](const torch::Tensor&) { ++calls_of_unused; });
  auto twice = layer();
  const auto loss = twice->forward(x_).z().sum();
  slope(loss, true);
  problem_.cell->w.register_hook([&](const torch::Tensor&) { ++calls; });
  loss.backward({}, /*keep_graph=*/true);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(calls_of_unused, 0);
  EXPECT_FALSE(unused.grad().defined());
  EXPECT_THAT([&] { slope(loss, true); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("a hook")));
}

// Nothing in the graph of a gradient keeps that graph.
TEST_F(SecondDerivatives, LeaveNothingBehind) {
  const auto of_pass = [&] {
    auto twice = layer();
    const auto z = twice->forward(x_).z();
    auto gradient = torch::autograd::grad({z.pow(3).sum()}, {x_}, {}, true, true)[0];
    gradient = torch::autograd::grad({gradient.square().sum()}, {x_}, {}, true, true)[0];
    return std::pair(c10::weak_intrusive_ptr(z.getIntrusivePtr()),
                     c10::weak_intrusive_ptr(gradient.getIntrusivePtr()));
  };
  const auto [z, gradient] = of_pass();
  EXPECT_TRUE(z.expired());
  EXPECT_TRUE(gradient.expired());
}

TEST_F(SecondDerivatives, WithAJacobianPenaltyInTheSameGraph) {
  auto twice = layer(), once = layer(true, /*twice=*/false);
  const auto value = [&](Equilibrium& used, bool create_graph) {
    const auto eq = used->forward(x_);
    return slope(eq.z().pow(3).sum(), create_graph) +
           0.5 * jacobian_penalty(eq.linearization(), {}, ProbeKey{.key = 5});
  };
  const auto graph = value(twice, true);
  const auto gradients = torch::autograd::grad({graph}, variables_, {}, true);
  const auto penalty = torch::autograd::grad(
      {0.5 * jacobian_penalty(once->forward(x_).linearization(), {}, ProbeKey{.key = 5})},
      variables_, {}, true, false, /*allow_unused=*/true);
  const auto slopes =
      torch::autograd::grad({slope(twice->forward(x_).z().pow(3).sum(), true)}, variables_);
  for (size_t i = 0; i < variables_.size(); ++i) {
    const auto expected = penalty[i].defined() ? slopes[i] + penalty[i] : slopes[i];
    EXPECT_LT(test::relative_difference(gradients[i], expected), 1e-12) << "variable " << i;
  }
}

/// Its parameter goes through prepare(), and is used besides.
struct TiedCell : Cell {
  explicit TiedCell(torch::Tensor value) : w(register_parameter("w", std::move(value))) {}
  State initial_state(const Inputs& inputs) override { return {torch::zeros_like(inputs[0])}; }
  Context prepare(const Inputs& inputs) override { return {inputs[0], w}; }
  State step(const State& z, const Context& context) override {
    return {torch::tanh(torch::tanh(z[0].mm(context[1])).mm(w.t()) + context[0])};
  }
  torch::Tensor w;
};

TEST_F(SecondDerivatives, OfAParameterThatIsUsedInTwoWays) {
  const auto cell =
      std::make_shared<TiedCell>(0.3 * torch::randn({kTwiceDim, kTwiceDim}, generator_, f64()));
  std::vector<torch::Tensor> firsts, seconds;
  for (const GradientOptions& gradient :
       {GradientOptions(Unrolled{.steps = 120}),
        GradientOptions(Implicit{.solver = tight(), .twice = true})}) {
    Equilibrium tied(cell, EquilibriumOptions{.forward = tight(), .gradient = gradient});
    const auto loss = tied->forward(problem_.x).z().square().sum();
    firsts.push_back(torch::autograd::grad({loss}, {cell->w}, {}, true, true)[0]);
    seconds.push_back(torch::autograd::grad({firsts.back().square().sum()}, {cell->w})[0]);
  }
  EXPECT_LT(test::relative_difference(firsts[1].detach(), firsts[0].detach()), 1e-9);
  EXPECT_LT(test::relative_difference(seconds[1], seconds[0]), 1e-8);
}

TEST_F(SecondDerivatives, ComputeInThePrecisionOfTheirPass) {
  torch::nn::Linear inner(kTwiceDim, kTwiceDim);
  const auto w = (0.3 * torch::randn({kTwiceDim, kTwiceDim}, generator_)).requires_grad_();
  const auto x = torch::randn({kTwiceBatch, kTwiceDim}, generator_).requires_grad_();
  // Both products have the type of the pass: another one would not go with the injection.
  const auto f = [&](const torch::Tensor& z) {
    const auto injected = inner(x);
    return torch::tanh(torch::addmm(injected, z.to(injected.dtype()), w)).to(z.dtype());
  };
  std::vector<std::vector<torch::Tensor>> gradients;
  for (const bool create_graph : {false, true}) {
    const auto loss = [&] {
      const PrecisionScope rounded(Precision::BFloat16, torch::kCPU);
      const Anderson solver{.tol = {.rtol = 1e-2}, .max_evals = 20};
      return fixed_point(f, torch::zeros_like(x.detach()),
                         {.forward = solver, .gradient = Implicit{.solver = solver, .twice = true}})
          .z()
          .square()
          .sum();
    }();
    gradients.push_back(
        torch::autograd::grad({loss}, {w, inner->weight, x}, {}, true, create_graph));
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LT(test::relative_difference(gradients[1][i].detach(), gradients[0][i]), 0.05) << i;
  }
  const auto second = torch::autograd::grad({gradients[1][2].square().sum()}, {w})[0];
  EXPECT_GT(second.norm().item<double>(), 0);
}

}  // namespace
}  // namespace deq

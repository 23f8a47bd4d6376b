#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <thread>

#include "deq/core/error.h"
#include "deq/jacobian/frobenius.h"
#include "deq/nn/equilibrium.h"
#include "support/cells.h"
#include "support/differences.h"
#include "support/seed.h"

// The layer in larger graphs: used twice, nested, in eval mode, from several threads.

namespace deq {
namespace {

using test::f64;

constexpr int64_t kGraphBatch = 3, kGraphDim = 4;

class Graph : public test::Seeded {
 protected:
  Graph()
      : problem_(test::cell_problem(kGraphBatch, kGraphDim, 0.8, generator_)),
        weights_(torch::randn({kGraphBatch, kGraphDim}, generator_, f64())),
        x_(problem_.x.clone().requires_grad_()),
        layer_(problem_.cell,
               EquilibriumOptions{.forward = tight(), .gradient = Implicit{tight()}}),
        variables_{problem_.cell->w, problem_.cell->u, x_} {}

  static SolverOptions tight() { return Broyden{.tol = {.rtol = 1e-14}, .max_evals = 200}; }

  void expect_gradients(const std::function<torch::Tensor()>& loss) {
    const auto gradients = torch::autograd::grad({loss()}, variables_);
    const auto value = [&] {
      const torch::NoGradGuard no_grad;
      return loss().item<double>();
    };
    for (size_t i = 0; i < variables_.size(); ++i) {
      EXPECT_LT(test::relative_difference(gradients[i],
                                          test::numeric_gradient(value, variables_[i], 2e-4)),
                1e-7)
          << "variable " << i;
    }
  }

  test::CellProblem problem_;
  torch::Tensor weights_, x_;
  Equilibrium layer_;
  std::vector<torch::Tensor> variables_;
};

TEST_F(Graph, TwoCallsInOneGraph) {
  expect_gradients([&] {
    const auto first = layer_->forward(x_), second = layer_->forward(0.5 * x_ + 1);
    return (weights_ * first.z() * second.z()).sum();
  });
}

TEST_F(Graph, OneOutputIsTheOthersInput) {
  expect_gradients([&] {
    const auto inner = layer_->forward(x_);
    return (weights_ * layer_->forward(inner.z()).z()).sum();
  });
}

TEST_F(Graph, EveryCallHasItsOwnAdjointReport) {
  const auto inner = layer_->forward(x_);
  const auto outer = layer_->forward(inner.z());
  const auto unused = layer_->forward(x_);
  (weights_ * outer.z()).sum().backward();
  EXPECT_TRUE(inner.adjoint().converged());
  EXPECT_TRUE(outer.adjoint().converged());
  EXPECT_EQ(unused.adjoint().status, Status::NotRun);
}

TEST_F(Graph, BackwardTwiceOnARetainedGraph) {
  const auto loss = (weights_ * layer_->forward(x_).z()).sum();
  loss.backward({}, /*retain_graph=*/true);
  const auto once = x_.grad().clone();
  loss.backward();
  EXPECT_TRUE(x_.grad().equal(2 * once));
}

TEST_F(Graph, ModeChangesNothingForTheExactGradient) {
  torch::Tensor values[2], gradients[2];
  for (const bool training : {false, true}) {
    layer_->train(training);
    const auto eq = layer_->forward(x_);
    values[training] = eq.z().detach().clone();
    gradients[training] = torch::autograd::grad({(weights_ * eq.z()).sum()}, {x_})[0];
  }
  EXPECT_TRUE(values[0].equal(values[1]));
  EXPECT_TRUE(gradients[0].equal(gradients[1]));
}

/// A budget that does not suffice, so that z* and f(z*) differ.
TEST_F(Graph, WithGradientsOneMoreStepIsTaken) {
  EquilibriumOptions options{.forward = Anderson{.max_evals = 3},
                             .gradient = Implicit{.solver = tight()}};
  torch::Tensor z_star, f_of_z;
  {
    const torch::NoGradGuard no_grad;
    Equilibrium hasty(problem_.cell, options);
    z_star = hasty->forward(x_).z();
    f_of_z = problem_.cell->step({z_star}, problem_.cell->prepare({x_}))[0];
  }
  torch::Tensor gradients[2];
  for (const bool further : {false, true}) {
    options.one_more_step = further;
    Equilibrium hasty(problem_.cell, options);
    const auto eq = hasty->forward(x_);
    EXPECT_TRUE(eq.z().detach().equal(further ? f_of_z : z_star));
    EXPECT_GT(eq.report.max_relative(), 1e-3);
    gradients[further] = torch::autograd::grad({(weights_ * eq.z()).sum()}, {x_})[0];
  }
  EXPECT_TRUE(gradients[0].equal(gradients[1]));
}

TEST_F(Graph, NoGradGuardGivesNoGraph) {
  const torch::NoGradGuard no_grad;
  const auto eq = layer_->forward(x_);
  EXPECT_FALSE(eq.z().requires_grad());
  EXPECT_EQ(eq.adjoint().status, Status::NotRun);
}

TEST_F(Graph, SecondDerivativesAreRefused) {
  for (const GradientOptions& gradient : {GradientOptions(Implicit{}), GradientOptions(Truncated{}),
                                          GradientOptions(JacobianFree{})}) {
    Equilibrium layer(problem_.cell, EquilibriumOptions{.forward = tight(), .gradient = gradient});
    const auto loss = layer->forward(x_).z().square().sum();
    EXPECT_THAT([&] { torch::autograd::grad({loss}, {x_}, {}, true, /*create_graph=*/true); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr("create_graph")));
  }
}

TEST_F(Graph, PenaltyAndLossShareOneBackward) {
  const double gamma = 0.7;
  const auto penalty = [&](const Equilibrated& eq) {
    return jacobian_penalty(eq.linearization(), {.probes = 2}, test::generator(3));
  };
  const auto loss = [&](const Equilibrated& eq) { return (weights_ * eq.z()).sum(); };
  const auto eq = layer_->forward(x_);
  const auto both = torch::autograd::grad({loss(eq) + gamma * penalty(eq)}, variables_);
  EXPECT_TRUE(eq.adjoint().converged());
  const auto only_loss = torch::autograd::grad({loss(layer_->forward(x_))}, variables_);
  const auto only_penalty = torch::autograd::grad({penalty(layer_->forward(x_))}, variables_);
  for (size_t i = 0; i < variables_.size(); ++i) {
    const auto expected = only_loss[i] + gamma * only_penalty[i];
    EXPECT_GT(only_penalty[i].abs().max().item<double>(), 1e-6);
    EXPECT_LT(test::relative_difference(both[i], expected), 1e-12) << i;
  }
}

TEST_F(Graph, ThePenaltyDoesNotDifferentiateThroughTheFixedPoint) {
  // ∂‖J(z*; θ)‖²/∂θ at constant z*: differences of the penalty with z* held.
  const auto penalty_at = [&](const torch::Tensor& z) {
    const auto at = test::linearize(
        [&](const torch::Tensor& t) {
          return problem_.cell->step({t}, problem_.cell->prepare({x_}))[0];
        },
        z);
    return jacobian_penalty(at, {}, test::generator(9));
  };
  const auto eq = layer_->forward(x_);
  const auto own = torch::autograd::grad(
      {jacobian_penalty(eq.linearization(), {}, test::generator(9))}, variables_);
  const auto value = [&] { return penalty_at(problem_.z_star).item<double>(); };
  for (size_t i = 0; i < variables_.size(); ++i) {
    EXPECT_LT(test::relative_difference(own[i], test::numeric_gradient(value, variables_[i], 1e-3)),
              1e-8)
        << i;
  }
}

TEST_F(Graph, ThreadsGiveWhatOneGives) {
  const auto run = [&](const torch::Tensor& input) {
    const auto x = input.detach().clone().requires_grad_();
    const auto eq = layer_->forward(x);
    return torch::autograd::grad({(weights_ * eq.z()).sum()},
                                 {problem_.cell->w, problem_.cell->u, x});
  };
  std::vector<torch::Tensor> inputs{problem_.x, 0.5 * problem_.x, problem_.x + 0.3};
  std::vector<std::vector<torch::Tensor>> alone;
  for (const auto& input : inputs) alone.push_back(run(input));
  std::vector<int> wrong(inputs.size(), 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < inputs.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 20; ++k) {
        const auto gradients = run(inputs[t]);
        for (size_t i = 0; i < gradients.size(); ++i) {
          wrong[t] += gradients[i].equal(alone[t][i]) ? 0 : 1;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST_F(Graph, ThreadsMayAccumulateIntoTheSameParameters) {
  auto& w = problem_.cell->w;
  const auto step = [&] { (weights_ * layer_->forward(x_.detach()).z()).sum().backward(); };
  step();
  const auto once = w.grad().clone();
  w.mutable_grad().zero_();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) step();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LT(test::relative_difference(w.grad(), 30 * once), 1e-13);
}

}  // namespace
}  // namespace deq

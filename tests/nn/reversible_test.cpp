#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <algorithm>

#include "adjoint/reversible.h"
#include "core/autocast.h"
#include "deq/jacobian/frobenius.h"
#include "deq/nn/equilibrium.h"
#include "support/cells.h"
#include "support/seed.h"

// The reversible gradient against autograd through the same steps, written plainly.

namespace deq {
namespace {

using test::f64;

constexpr int64_t kReversibleBatch = 3, kReversibleDim = 5;

/// y and z stepped on the tape; the last z.
torch::Tensor plain_steps(const Map& f, const torch::Tensor& start, const Reversible& how) {
  auto y = start, z = start;
  for (int64_t k = 0; k < how.steps; ++k) {
    y = (1 - how.beta) * y + how.beta * f(z);
    z = (1 - how.beta) * z + how.beta * f(y);
  }
  return z;
}

class ReversibleLayer : public test::Seeded {
 protected:
  ReversibleLayer()
      : problem_(test::cell_problem(kReversibleBatch, kReversibleDim, 0.9, generator_)),
        weights_(torch::randn({kReversibleBatch, kReversibleDim}, generator_, f64())),
        start_(torch::randn({kReversibleBatch, kReversibleDim}, generator_, f64())),
        x_(problem_.x.clone().requires_grad_()),
        variables_{problem_.cell->w, problem_.cell->u, x_} {}

  Equilibrium layer(const Reversible& how) const {
    return Equilibrium(problem_.cell, EquilibriumOptions{.gradient = how});
  }
  Equilibrated run(const Reversible& how) const {
    return layer(how)->forward({x_}, {.start = {start_}});
  }
  torch::Tensor f(const torch::Tensor& z) const {
    const auto& cell = *problem_.cell;
    return torch::tanh(z.mm(cell.w.t()) + x_.mm(cell.u.t()));
  }
  torch::Tensor plain(const Reversible& how) const {
    return plain_steps([this](const torch::Tensor& z) { return f(z); }, start_, how);
  }
  std::vector<torch::Tensor> gradients(const torch::Tensor& z) const {
    return torch::autograd::grad({(weights_ * z).sum()}, variables_);
  }
  void expect_same(const std::vector<torch::Tensor>& own,
                   const std::vector<torch::Tensor>& expected, double tolerance) const {
    ASSERT_EQ(own.size(), expected.size());
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_LT(test::relative_difference(own[i], expected[i]), tolerance) << "variable " << i;
    }
  }

  test::CellProblem problem_;
  torch::Tensor weights_, start_, x_;
  std::vector<torch::Tensor> variables_;
};

TEST_F(ReversibleLayer, IsBackpropagationThroughItsSteps) {
  for (const Reversible& how :
       {Reversible{.steps = 1}, Reversible{.steps = 8}, Reversible{.steps = 3, .beta = 0.8},
        Reversible{.steps = 12, .beta = 0.2}}) {
    const auto eq = run(how);
    EXPECT_LT(test::relative_difference(eq.z(), plain(how)), 1e-14);
    EXPECT_EQ(eq.adjoint().status, Status::NotRun);
    expect_same(gradients(eq.z()), gradients(plain(how)), 1e-9);
    EXPECT_TRUE(eq.adjoint().converged()) << eq.adjoint().brief();
    EXPECT_EQ(eq.adjoint().evaluations, 2 * how.steps);
  }
}

TEST_F(ReversibleLayer, StatesOfSeveralPartsHaveGradientsToo) {
  test::PairCell cell(4, generator_);
  const auto x = torch::randn({2, 4}, generator_, f64()).requires_grad_();
  const Reversible how{.steps = 5};
  Equilibrium layer(cell, EquilibriumOptions{.gradient = how});
  const auto eq = layer->forward(x);
  const auto z0 = cell->initial_state({x});
  const auto layout = StateLayout::of(z0);
  const auto slab = plain_steps(
      [&](const torch::Tensor& z) { return layout.pack(cell->step(layout.unpack(z), {x})); },
      layout.pack(z0), how);
  const auto expected = layout.unpack(slab);
  const auto of = [&](const State& state) {
    return torch::autograd::grad({state[0].square().sum() + state[1].pow(3).sum()},
                                 {cell->w, cell->s, x});
  };
  expect_same(of(eq.state), of(expected), 1e-9);
}

/// f in float32: what is lost is its rounding, not the way back's.
TEST_F(ReversibleLayer, Float32LayersWalkBackInFloat64) {
  const Reversible how{.steps = 8};
  const auto exact = gradients(plain(how));
  problem_.cell->to(torch::kFloat32);
  const auto x = x_.detach().to(torch::kFloat32).requires_grad_();
  const auto eq = layer(how)->forward({x}, {.start = {start_.to(torch::kFloat32)}});
  EXPECT_EQ(eq.z().scalar_type(), torch::kFloat32);
  const auto own = torch::autograd::grad({(weights_.to(torch::kFloat32) * eq.z()).sum()},
                                         {problem_.cell->w, problem_.cell->u, x});
  expect_same(own, exact, 2e-5);
  EXPECT_LT(eq.adjoint().max_relative(), 1e-9);
}

TEST_F(ReversibleLayer, TheReportSaysHowFarFromTheStartTheWayBackLed) {
  const auto lost = [&](const Reversible& how) {
    const auto eq = run(how);
    gradients(eq.z());
    EXPECT_EQ(eq.adjoint().samples.size(), static_cast<size_t>(kReversibleBatch));
    return eq.adjoint();
  };
  // 1/(1 − β)² a step: 4⁵ and 4¹⁵ roundings, and all digits.
  EXPECT_LT(lost({.steps = 5}).max_relative(), 1e-11);
  const auto more = lost({.steps = 15}).max_relative();
  EXPECT_GT(more, 1e-12);
  EXPECT_LT(more, 1e-4);
  const auto all = lost({.steps = 40, .beta = 0.8});
  EXPECT_FALSE(all.converged());
  EXPECT_GT(all.max_relative(), kLostStart);
}

TEST_F(ReversibleLayer, ALostWayBackIsAFailure) {
  Equilibrium layer(problem_.cell, EquilibriumOptions{.gradient = Reversible{40, 0.8},
                                                      .on_failure = OnFailure::Throw});
  const auto loss = layer->forward({x_}, {.start = {start_}}).z().sum();
  EXPECT_THAT([&] { loss.backward(); },
              ::testing::ThrowsMessage<ConvergenceError>(::testing::HasSubstr("adjoint solve")));
}

TEST_F(ReversibleLayer, AnFThatDrawsAnewIsNoticed) {
  struct Noisy : Cell {
    State initial_state(const Inputs& x) override { return {torch::zeros_like(x[0])}; }
    State step(const State& z, const Context& x) override {
      return {torch::tanh(0.5 * z[0] * x[0] + torch::randn_like(z[0]))};
    }
  };
  Equilibrium layer(std::make_shared<Noisy>(),
                    EquilibriumOptions{.gradient = Reversible{.steps = 4}});
  const auto eq = layer->forward(x_);
  eq.z().sum().backward();
  EXPECT_EQ(eq.adjoint().status, Status::Diverged) << eq.adjoint().brief();
}

TEST_F(ReversibleLayer, ReportsTheStateItReturns) {
  const auto eq = run({.steps = 4});
  EXPECT_EQ(eq.report.evaluations, 9);  // two a step, and one to measure
  const auto residual =
      test::residuals([&](const torch::Tensor& z) { return f(z); }, eq.z().detach());
  for (int64_t b = 0; b < kReversibleBatch; ++b) {
    const auto& sample = eq.report.samples[static_cast<size_t>(b)];
    const double relative = residual.relative[b].item<double>();
    EXPECT_NEAR(sample.relative, relative, 1e-9 * relative + 1e-15);
  }
}

TEST_F(ReversibleLayer, WithoutGradientsTheStepsAreTheSame) {
  const auto with = run({.steps = 3}).z().detach();
  const torch::NoGradGuard no_grad;
  const auto without = run({.steps = 3});
  EXPECT_TRUE(without.z().equal(with));
  EXPECT_FALSE(without.z().requires_grad());
}

TEST_F(ReversibleLayer, CanBeSolvedToo) {
  const Solver solver(Broyden{.tol = {.rtol = 1e-12}, .max_evals = 100});
  const auto eq = layer({.steps = 2})->forward({x_}, {.solver = &solver});
  EXPECT_TRUE(eq.report.converged()) << eq.report.brief();
}

TEST_F(ReversibleLayer, ServesTwoCallsInOneGraphAndAPenalty) {
  const Reversible how{.steps = 4};
  auto twice = layer(how);
  const auto first = twice->forward({x_}, {.start = {start_}});
  const auto second = twice->forward({first.z()}, {.start = {start_}});
  const auto penalty = jacobian_penalty(first.linearization(), {}, ProbeKey{.key = 3});
  const auto own = torch::autograd::grad({(weights_ * second.z()).sum() + penalty}, variables_);

  const auto plain_first = plain(how);
  const auto plain_second = plain_steps(
      [&](const torch::Tensor& z) {
        const auto& cell = *problem_.cell;
        return torch::tanh(z.mm(cell.w.t()) + plain_first.mm(cell.u.t()));
      },
      start_, how);
  const auto z = plain_first.detach().requires_grad_();
  const auto plain_penalty = jacobian_penalty(Linearization(z, f(z)), {}, ProbeKey{.key = 3});
  expect_same(own,
              torch::autograd::grad({(weights_ * plain_second).sum() + plain_penalty}, variables_),
              1e-9);
}

TEST_F(ReversibleLayer, ASecondBackwardNeedsARetainedGraph) {
  const auto loss = run({.steps = 3}).z().sum();
  loss.backward({}, /*retain_graph=*/true);
  const auto once = x_.grad().clone();
  loss.backward();
  EXPECT_TRUE(x_.grad().equal(2 * once));
  EXPECT_THAT([&] { loss.backward(); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("a second time")));
}

TEST_F(ReversibleLayer, SecondDerivativesAndHooksAreRefused) {
  const auto loss = run({.steps = 2}).z().sum();
  EXPECT_THAT([&] { torch::autograd::grad({loss}, {x_}, {}, true, /*create_graph=*/true); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("create_graph")));
  problem_.cell->w.register_hook([](const torch::Tensor& g) { return g; });
  EXPECT_THAT([&] { run({.steps = 2}); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("hook")));
}

/// f's own casts are made anew on the way back, which runs outside of autocast.
TEST_F(ReversibleLayer, WalksBackUnderTheForwardPasssAutocast) {
  problem_.cell->to(torch::kFloat32);
  const auto x = x_.detach().to(torch::kFloat32).requires_grad_();
  const auto eq = [&] {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    auto passed = layer({.steps = 4})->forward(x);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    return passed;
  }();
  eq.z().sum().backward();
  EXPECT_LT(eq.adjoint().max_relative(), 1e-10) << "another f was evaluated on the way back";
  EXPECT_TRUE(problem_.cell->w.grad().defined());
}

/// Counts, of a cell's evaluations on a tape, how many are alive at once.
class CountedTapes : public Cell {
 public:
  struct Token : torch::CustomClassHolder {
    explicit Token(CountedTapes& owner) : cell(owner) {
      ++cell.alive;
      cell.most = std::max(cell.most, cell.alive);
    }
    ~Token() override { --cell.alive; }
    CountedTapes& cell;
  };
  struct HalfWithToken : torch::autograd::Function<HalfWithToken> {
    static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& z,
                                 const c10::intrusive_ptr<Token>& token) {
      context->saved_data["token"] = c10::IValue::make_capsule(token);
      return z * 0.5;
    }
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::tensor_list& gradients) {
      return {gradients[0] * 0.5, {}};
    }
  };

  State initial_state(const Inputs& x) override { return {torch::zeros_like(x[0])}; }
  State step(const State& z, const Context& x) override {
    const auto in = z[0] + x[0];
    if (!in.requires_grad()) return {0.5 * in};
    return {HalfWithToken::apply(in, c10::make_intrusive<Token>(*this))};
  }

  int64_t alive = 0, most = 0;
};

TEST_F(ReversibleLayer, MemoryDoesNotGrowWithTheSteps) {
  const auto most_tapes = [&](const GradientOptions& gradient) {
    const auto cell = std::make_shared<CountedTapes>();
    Equilibrium layer(std::static_pointer_cast<Cell>(cell),
                      EquilibriumOptions{.gradient = gradient});
    layer->forward(x_).z().sum().backward();
    EXPECT_EQ(cell->alive, 0);
    return cell->most;
  };
  EXPECT_EQ(most_tapes(Unrolled{.steps = 16}), 16);
  for (const int64_t steps : {1, 8, 40}) EXPECT_LE(most_tapes(Reversible{.steps = steps}), 2);
}

}  // namespace
}  // namespace deq

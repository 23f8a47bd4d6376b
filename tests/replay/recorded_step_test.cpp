#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "deq/jacobian/frobenius.h"
#include "deq/jacobian/gain.h"
#include "deq/nn/equilibrium.h"
#include "replay/device_graph.h"
#include "replay/recorded_step.h"
#include "support/cells.h"
#include "support/counted_recorders.h"
#include "support/seed.h"

// The layer with its step replayed on memory of its own, against the layer evaluated step by step.
// Here a "graph" repeats the operations it has seen on the CPU, so that everything except the
// device's own recording is tested on every machine; tests/cuda repeats it on a GPU.

namespace deq {
namespace {

constexpr int64_t kRecordedStepBatch = 3, kRecordedStepDim = 5;

class RefusingRecorder final : public GraphRecorder {
 public:
  std::unique_ptr<DeviceGraph> record(const std::function<void()>&) override {
    throw std::runtime_error("this work waits for the device");
  }
  void begin_own_memory() override {}
};

struct Outcome {
  torch::Tensor z;
  std::vector<torch::Tensor> gradients;  // w, u, x
};

class RecordedStepTest : public test::Seeded {
 protected:
  RecordedStepTest()
      : problem_(test::cell_problem(kRecordedStepBatch, kRecordedStepDim, 0.8, generator_)),
        weights_(torch::randn({kRecordedStepBatch, kRecordedStepDim}, generator_, test::f64())) {}
  static SolverOptions tight() { return Broyden{.tol = {.rtol = 1e-13}, .max_evals = 100}; }

  Equilibrium layer(const GradientOptions& gradient = Implicit{tight()}) const {
    return Equilibrium(problem_.cell, EquilibriumOptions{.forward = tight(), .gradient = gradient});
  }

  /// z*, and the gradients of a loss with a penalty of so many probes, after power steps where
  /// there are some.
  Outcome pass(Equilibrium& layer, const torch::Tensor& x, int64_t probes,
               int64_t power_steps = 0) const {
    const auto leaf = x.detach().clone().requires_grad_();
    const auto eq = layer->forward(leaf);
    auto loss = (weights_.narrow(0, 0, x.size(0)) * eq.z()).sum();
    const ProbeKey key{.key = 5};
    const Hutchinson how{.probes = probes};
    if (power_steps > 0) {
      const PowerProbes turned{.steps = power_steps, .start = how};
      loss = loss + 3.0 * spectral_penalty(eq.linearization(), turned, key);
    } else if (probes > 0) {
      loss = loss + 3.0 * jacobian_penalty(eq.linearization(), how, key);
    }
    return {eq.z().detach(),
            torch::autograd::grad({loss}, {problem_.cell->w, problem_.cell->u, leaf})};
  }

  void expect_same(const Outcome& replayed, const Outcome& plain) {
    EXPECT_LT(test::relative_difference(replayed.z, plain.z), 1e-12);
    for (size_t i = 0; i < plain.gradients.size(); ++i) {
      EXPECT_LT(test::relative_difference(replayed.gradients[i], plain.gradients[i]), 1e-11)
          << "variable " << i;
    }
  }

  Outcome plainly(const torch::Tensor& x, int64_t probes,
                  const GradientOptions& gradient = Implicit{tight()}) const {
    auto fresh = layer(gradient);  // the first pass with new shapes is not recorded
    return pass(fresh, x, probes);
  }

  const test::CountedRecorders recorders_;
  test::CellProblem problem_;
  torch::Tensor weights_;
};

TEST_F(RecordedStepTest, GivesTheSameStateAndGradients) {
  for (const GradientOptions& gradient :
       {GradientOptions(Implicit{tight()}), GradientOptions(Truncated{.terms = 3}),
        GradientOptions(JacobianFree{}), GradientOptions(Shine{}),
        GradientOptions(Shine{.refinement = tight()}), GradientOptions(Phantom{.steps = 3}),
        GradientOptions(Reversible{.steps = 3}), GradientOptions(Unrolled{.steps = 20}),
        GradientOptions(Unrolled{.steps = 20, .replayed = true}),
        GradientOptions(Unrolled{.steps = 20, .replayed = true, .measured = false})}) {
    for (const int64_t probes : {0, 1, 3}) {
      SCOPED_TRACE(fmt::format("{}, probes = {}", gradient_name(gradient), probes));
      auto replaying = layer(gradient);
      for (int64_t k = 0; k < 4; ++k) {
        const auto x = problem_.x + 0.1 * static_cast<double>(k);
        expect_same(pass(replaying, x, probes), plainly(x, probes, gradient));
      }
    }
  }
}

TEST_F(RecordedStepTest, PowerStepsBeforeADifferentiableProductAreReplayed) {
  for (const int64_t probes : {1, 2}) {
    SCOPED_TRACE(fmt::format("probes = {}", probes));
    auto replaying = layer();
    for (int64_t k = 0; k < 4; ++k) {
      const auto x = problem_.x + 0.1 * static_cast<double>(k);
      auto fresh = layer();
      expect_same(pass(replaying, x, probes, 3), pass(fresh, x, probes, 3));
    }
  }
  auto replaying = layer();
  for (int64_t k = 0; k < 3; ++k) pass(replaying, problem_.x, 1, 3);
  const auto steps = problem_.cell->steps.load();
  pass(replaying, problem_.x, 1, 3);
  EXPECT_EQ(problem_.cell->steps, steps) << "the cell is not asked any more";
}

TEST_F(RecordedStepTest, RecordsAShapeAtItsSecondPassAndOnce) {
  auto replaying = layer();
  pass(replaying, problem_.x, 1);
  EXPECT_EQ(recorders_.graphs(), 0);
  pass(replaying, problem_.x, 0);
  EXPECT_EQ(recorders_.graphs(), 5) << "prepare, f, its tape, the product and the gradients";
  pass(replaying, problem_.x, 1);
  EXPECT_EQ(recorders_.graphs(), 7) << "and the penalty's two";
  const auto steps = problem_.cell->steps.load();
  replaying->forward(problem_.x.clone().requires_grad_());
  EXPECT_EQ(recorders_.graphs(), 7);
  EXPECT_EQ(problem_.cell->steps, steps) << "the cell is not asked any more";
}

/// f(z; x) = tanh(z ⊙ wᵀ + x): autograd gives w's gradient transposed.
struct TransposingCell : Cell {
  explicit TransposingCell(const torch::Tensor& start) : w(register_parameter("w", start)) {}
  State initial_state(const Inputs& x) override { return {torch::zeros_like(x[0])}; }
  Context prepare(const Inputs& x) override { return {x[0]}; }
  State step(const State& z, const Context& x) override {
    return {torch::tanh(z[0] * w.t() + x[0])};
  }
  std::optional<ReplayKey> replay_key() const override { return ReplayKey{}; }

  torch::Tensor w;
};

TEST_F(RecordedStepTest, GradientsLieInMemoryAsTheirParameters) {
  const auto x = torch::randn({1, 3, 3}, generator_, test::f64());
  const auto cell = std::make_shared<TransposingCell>(0.3 * torch::eye(3, test::f64()));
  const auto layout = StateLayout::of({x});
  RecordedStep recorded({.cell = cell,
                         .layout = layout,
                         .inputs = {x},
                         .z = layout.pack({x}),
                         .with_gradients = true});
  recorded.load({x});
  recorded.linearise(layout.pack({x}));
  const auto& gradient = recorded.gradients(layout.pack({torch::ones_like(x)})).at(0);
  EXPECT_EQ(gradient.strides(), cell->w.strides());
  const auto f = torch::tanh(x * cell->w.t() + x).detach();
  EXPECT_TRUE(gradient.allclose(((1 - f.square()) * x)[0].t()));
}

TEST_F(RecordedStepTest, UnrolledStepsAreReplayedUntilTheLayerIsSolved) {
  auto replaying = layer();
  const auto unroll = [&] {
    const EquilibriumPlan plan({.gradient = Unrolled{.steps = 3, .replayed = true}});
    return replaying->forward({problem_.x}, {.plan = &plan});
  };
  const auto evaluated = unroll();
  EXPECT_EQ(recorders_.graphs(), 0);
  const auto replayed = unroll();
  EXPECT_EQ(recorders_.graphs(), 2) << "the value and the gradients";
  EXPECT_TRUE(replayed.z().equal(evaluated.z()));
  EXPECT_EQ(replayed.report.evaluations, 4);
  EXPECT_EQ(replayed.report.mean_relative(), evaluated.report.mean_relative());
  unroll();
  EXPECT_EQ(recorders_.graphs(), 4) << "another one, while a pass still holds the first";
  replaying->forward(problem_.x);
  unroll();
  EXPECT_EQ(recorders_.graphs(), 4) << "forgotten: the next one is recorded anew";
  unroll();
  EXPECT_EQ(recorders_.graphs(), 6);
}

TEST_F(RecordedStepTest, GradientsAreKeptWhenTheRecordingGoesOn) {
  auto replaying = layer();
  const auto gradient_at = [&](const torch::Tensor& x) {
    problem_.cell->w.mutable_grad().reset();
    (weights_ * replaying->forward(x).z()).sum().backward();
    return problem_.cell->w.grad();
  };
  gradient_at(problem_.x);
  const auto first = gradient_at(problem_.x);
  const auto copy = first.clone();
  EXPECT_FALSE(gradient_at(problem_.x + 1.0).equal(copy));
  EXPECT_TRUE(first.equal(copy));
}

TEST_F(RecordedStepTest, SeesNewWeights) {
  auto replaying = layer();
  for (int64_t k = 0; k < 4; ++k) {
    expect_same(pass(replaying, problem_.x, 1), plainly(problem_.x, 1));
    const torch::NoGradGuard no_grad;
    problem_.cell->w.mul_(0.9);
    problem_.cell->u.add_(0.05);
  }
}

TEST_F(RecordedStepTest, SeesParametersThatMovedInMemory) {
  auto replaying = layer();
  for (int64_t k = 0; k < 4; ++k) {
    expect_same(pass(replaying, problem_.x, 0), plainly(problem_.x, 0));
    problem_.cell->w.set_data(0.9 * problem_.cell->w.detach());
  }
}

TEST_F(RecordedStepTest, ServesManyShapesInTurn) {
  auto replaying = layer();
  for (int64_t round = 0; round < 3; ++round) {
    for (int64_t batch = 1; batch <= kRecordedStepBatch; ++batch) {
      const auto x = problem_.x.narrow(0, 0, batch) + 0.1 * static_cast<double>(round);
      expect_same(pass(replaying, x, 1), plainly(x, 1));
    }
  }
}

TEST_F(RecordedStepTest, ManyPassesInOneGraphDoNotDisturbEachOther) {
  const auto gradient_through = [&](Equilibrium shared) {
    const auto leaf = problem_.x.detach().clone().requires_grad_();
    torch::Tensor loss = torch::zeros({}, test::f64()), input = leaf;
    for (int64_t k = 0; k < 7; ++k) {  // more than are recorded at a time
      const auto eq = shared->forward(input);
      input = eq.z() + leaf;
      loss = loss + (weights_ * eq.z().square()).sum() +
             jacobian_penalty(eq.linearization(), {}, ProbeKey{.key = 9});
    }
    return torch::autograd::grad({loss}, {leaf, problem_.cell->w});
  };
  auto replaying = layer();
  pass(replaying, problem_.x, 0);  // so that the shape is known
  const auto replayed = gradient_through(replaying);
  EXPECT_GT(recorders_.graphs(), 7);
  replace_graph_recorders(nullptr);
  const auto plain = gradient_through(layer());
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LT(test::relative_difference(replayed[i], plain[i]), 1e-11) << "variable " << i;
  }
}

TEST_F(RecordedStepTest, WithoutGradientOnlyFIsRecorded) {
  const torch::NoGradGuard no_grad;
  auto replaying = layer();
  replaying->eval();
  const auto first = replaying->forward(problem_.x);
  const auto second = replaying->forward(problem_.x);
  EXPECT_EQ(recorders_.graphs(), 2) << "with prepare";
  EXPECT_LT(test::relative_difference(second.z(), first.z()), 1e-12);
  EXPECT_LT(test::relative_difference(first.z(), problem_.z_star), 1e-10);
}

TEST_F(RecordedStepTest, AStepThatCannotBeRecordedIsEvaluatedAndSaidSo) {
  replace_graph_recorders([](const torch::Device&) -> std::unique_ptr<GraphRecorder> {
    return std::make_unique<RefusingRecorder>();
  });
  auto refused = layer();
  pass(refused, problem_.x, 0);
  ::testing::internal::CaptureStderr();
  const auto outcome = pass(refused, problem_.x, 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              testing::HasSubstr("this work waits for the device"));
  expect_same(outcome, plainly(problem_.x, 1));
  ::testing::internal::CaptureStderr();
  pass(refused, problem_.x, 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace deq

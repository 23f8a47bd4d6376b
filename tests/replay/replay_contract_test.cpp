#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include <optional>
#include <sstream>
#include <thread>

#include "deq/core/cuda.h"
#include "deq/core/error.h"
#include "deq/jacobian/frobenius.h"
#include "deq/nn/equilibrium.h"
#include "support/counted_recorders.h"
#include "support/maps.h"
#include "support/seed.h"

// What a user does to a layer between two passes, replayed against evaluated: on a GPU where there
// is one, and on the CPU with graphs that keep what a GPU's graphs keep.

namespace deq {
namespace {

constexpr int64_t kContractBatch = 4, kContractDim = 6;

/// f(z; x) = scale · dropout(tanh(norm(W z)) + x), with statistics where `normalised`.
class ContractCellImpl : public Cell {
 public:
  explicit ContractCellImpl(bool normalised = false) {
    linear = register_module("linear", torch::nn::Linear(kContractDim, kContractDim));
    dropout = register_module("dropout", torch::nn::Dropout(0.0));
    if (normalised) norm = register_module("norm", torch::nn::BatchNorm1d(kContractDim));
    to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    linear->weight.mul_(0.7);
  }

  State initial_state(const Inputs& inputs) override { return {torch::zeros_like(inputs.at(0))}; }
  Context prepare(const Inputs& inputs) override {
    return {inputs.at(0), dropout->forward(torch::ones_like(inputs[0]))};
  }
  State step(const State& z, const Context& context) override {
    auto inner = linear->forward(z[0]);
    if (norm) inner = norm->forward(inner);
    if (extra_layer) inner = inner.sin();
    return {scale * context[1] * torch::tanh(inner) + context[0]};
  }
  std::optional<ReplayKey> replay_key() const override {
    if (!has_key) return std::nullopt;
    return forgets ? ReplayKey{} : ReplayKey{scale, extra_layer ? 1.0 : 0.0};
  }

  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& /*device*/ = {}) const override {
    auto copy = std::make_shared<ContractCellImpl>();
    copy->to(linear->weight.device());
    const torch::NoGradGuard no_grad;
    copy->linear->weight.copy_(linear->weight);
    copy->linear->bias.copy_(linear->bias);
    return copy;
  }

  torch::nn::Linear linear{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  double scale = 0.6;
  bool extra_layer = false, has_key = true, forgets = false;
};
TORCH_MODULE(ContractCell);

struct ContractOutcome {
  torch::Tensor z;
  std::vector<torch::Tensor> gradients;  // of the input, then of the parameters
};

class ReplayContract : public test::SeededWith<torch::DeviceType> {
 protected:
  static EquilibriumOptions options(Replay replay) {
    const SolverOptions tight = Broyden{.tol = {.rtol = 1e-13}, .max_evals = 60};
    return {.forward = tight, .gradient = Implicit{tight}, .replay = replay};
  }

  void SetUp() override {
    if (device().is_cuda() && !cuda_status().available) GTEST_SKIP() << cuda_status().reason;
    recorders_.emplace(device());
    torch::manual_seed(test::seed());
    use(ContractCell());
  }

  static torch::Device device() { return GetParam(); }
  static torch::TensorOptions options_of_tensors() {
    return torch::TensorOptions(device()).dtype(torch::kFloat64);
  }

  void use(ContractCell cell) {
    cell_ = std::move(cell);
    cell_->to(device());
    replaying_ = Equilibrium(cell_, options(Replay::Automatic));
    evaluating_ = Equilibrium(cell_, options(Replay::Off));
  }

  torch::Tensor draw(int64_t batch = kContractBatch) {
    return torch::randn({batch, kContractDim}, generator_, test::f64()).to(device());
  }

  /// With the same random numbers whichever layer it is.
  ContractOutcome pass(Equilibrium& layer, const torch::Tensor& x, uint64_t seed) const {
    torch::manual_seed(seed);
    const auto leaf = x.clone().requires_grad_();
    const auto eq = layer->forward(2 * leaf);  // an input that is no leaf
    auto loss =
        eq.z().square().sum() + 3.0 * jacobian_penalty(eq.linearization(), {}, ProbeKey{.key = 5});
    std::vector<torch::Tensor> variables{leaf};
    for (const auto& parameter : cell_->parameters()) {
      if (parameter.requires_grad()) variables.push_back(parameter);
    }
    return {eq.z().detach(), torch::autograd::grad({loss}, variables, {}, /*retain_graph=*/{},
                                                   /*create_graph=*/false, /*allow_unused=*/true)};
  }

  static void expect_same(const ContractOutcome& replayed, const ContractOutcome& evaluated) {
    EXPECT_LT(test::relative_difference(replayed.z, evaluated.z), 1e-12);
    for (size_t i = 0; i < evaluated.gradients.size(); ++i) {
      ASSERT_EQ(replayed.gradients[i].defined(), evaluated.gradients[i].defined()) << i;
      if (!evaluated.gradients[i].defined()) continue;
      EXPECT_LT(test::relative_difference(replayed.gradients[i], evaluated.gradients[i]), 1e-10)
          << "variable " << i;
    }
  }

  void expect_as_evaluated(int passes = 4, int64_t batch = kContractBatch) {
    for (int k = 0; k < passes; ++k) {
      const auto x = draw(batch);
      const auto seed = static_cast<uint64_t>(1000 + k);
      expect_same(pass(replaying_, x, seed), pass(evaluating_, x, seed));
    }
  }

  /// Replayed, then as `change` leaves the layer.
  void expect_right_after(const std::function<void()>& change) {
    expect_as_evaluated();
    EXPECT_GT(recorders_->graphs(), 0);
    change();
    expect_as_evaluated();
  }

  std::optional<test::CountedRecorders> recorders_;
  ContractCell cell_{nullptr};
  Equilibrium replaying_{nullptr}, evaluating_{nullptr};
};

TEST_P(ReplayContract, InputsWeightsAndMasksChangeFromPassToPass) {
  cell_->dropout->options.p(0.3);
  for (int k = 0; k < 5; ++k) {
    expect_as_evaluated(2);
    const torch::NoGradGuard no_grad;
    cell_->linear->weight.mul_(0.95);
    cell_->linear->bias.add_(0.1);
  }
  EXPECT_GT(recorders_->graphs(), 0);
}

TEST_P(ReplayContract, ANumberThatTheKeyNamesChanges) {
  expect_right_after([this] { cell_->scale = 0.2; });
}

TEST_P(ReplayContract, ABranchThatTheKeyNamesChanges) {
  expect_right_after([this] { cell_->extra_layer = true; });
}

TEST_P(ReplayContract, ANumberThatTheKeyForgetsIsFrozen) {
  // So the tests around this one see what they are meant to see.
  cell_->forgets = true;
  expect_as_evaluated();
  cell_->scale = 0.2;
  const auto x = draw();
  EXPECT_GT(test::relative_difference(pass(replaying_, x, 1).z, pass(evaluating_, x, 1).z), 0.1);
}

TEST_P(ReplayContract, ACellWithoutAKeyIsEvaluated) {
  cell_->has_key = false;
  expect_as_evaluated();
  cell_->scale = 0.2;
  expect_as_evaluated();
  EXPECT_EQ(recorders_->graphs(), 0);
}

TEST_P(ReplayContract, OffEvaluates) {
  for (uint64_t k = 0; k < 3; ++k) pass(evaluating_, draw(), k);
  EXPECT_EQ(recorders_->graphs(), 0);
}

TEST_P(ReplayContract, ADropoutInsideIsPutIntoEvalMode) {
  cell_->dropout->options.p(0.3);
  expect_right_after([this] { cell_->dropout->eval(); });
}

TEST_P(ReplayContract, ADropoutsProbabilityIsSetToZero) {
  cell_->dropout->options.p(0.3);
  expect_right_after([this] { cell_->dropout->options.p(0); });
}

TEST_P(ReplayContract, AHookOnAParameterRunsOnceWithTheTrueGradient) {
  int calls = 0;
  torch::Tensor seen;
  expect_right_after([&] {
    cell_->linear->weight.register_hook([&](const torch::Tensor& gradient) {
      ++calls;
      seen = gradient.clone();
      return 2 * gradient;
    });
  });
  calls = 0;
  const auto outcome = pass(replaying_, draw(), 7);
  EXPECT_EQ(calls, 1);
  EXPECT_LT(test::relative_difference(outcome.gradients[1], 2 * seen), 1e-14);
}

TEST_P(ReplayContract, AHookThatWasThereBeforeTheRecording) {
  int calls = 0;
  cell_->linear->weight.register_hook([&](const torch::Tensor& gradient) {
    ++calls;
    return -gradient;
  });
  expect_as_evaluated(4);
  EXPECT_EQ(calls, 8);
}

TEST_P(ReplayContract, ParametersAreFrozenReplacedMovedAndReloaded) {
  expect_right_after([this] { cell_->linear->bias.requires_grad_(false); });
  expect_right_after([this] { cell_->linear->bias.requires_grad_(true); });
  expect_right_after(
      [this] { cell_->linear->weight.set_data(0.5 * cell_->linear->weight.detach().clone()); });
  expect_right_after([this] {
    replaying_->to(torch::kFloat32);
    replaying_->to(torch::kFloat64);
  });
  expect_right_after([this] {
    std::stringstream file;
    torch::save(cell_, file);
    {
      const torch::NoGradGuard no_grad;
      cell_->linear->weight.zero_();
    }
    torch::load(cell_, file);
  });
}

TEST_P(ReplayContract, TrainingAfterInferenceModeAtTheSameShape) {
  const auto x = draw();
  const auto infer = [&] {
    const c10::InferenceMode guard;
    return replaying_->forward(x).z().clone();
  };
  cell_->eval();
  const auto first = infer();
  EXPECT_TRUE(torch::allclose(infer(), first, 1e-12, 1e-14));
  EXPECT_TRUE(torch::allclose(infer(), first, 1e-12, 1e-14));
  cell_->train();
  expect_as_evaluated();
  EXPECT_TRUE(torch::allclose(infer(), first, 1e-10, 1e-12));
}

TEST_P(ReplayContract, RecordingLeavesNoTraceInStatistics) {
  use(ContractCell(/*normalised=*/true));
  // Samples are not independent under a batch norm: the adjoint's products go down the graph
  // anyway.
  const auto statistics = [this](Equilibrium& layer) {
    cell_->norm->running_mean.zero_();
    cell_->norm->running_var.fill_(1);
    for (uint64_t k = 0; k < 5; ++k) {
      const auto x = torch::full({kContractBatch, kContractDim}, 0.1 * static_cast<double>(k + 1),
                                 options_of_tensors());
      EquilibriumPlan plan({.forward = Picard{.tol = {.rtol = 0}, .max_evals = 4},
                            .gradient = JacobianFree{},
                            .replay = layer->options().replay});
      layer->forward({x}, {.plan = &plan}).z().sum().backward();
    }
    return torch::stack({cell_->norm->running_mean, cell_->norm->running_var});
  };
  const auto replayed = statistics(replaying_);
  EXPECT_GT(recorders_->graphs(), 0);
  EXPECT_LT(test::relative_difference(replayed, statistics(evaluating_)), 1e-13);
}

TEST_P(ReplayContract, RecordingDrawsNoRandomNumbers) {
  cell_->dropout->options.p(0.5);
  const auto numbers = [this](Equilibrium& layer) {
    torch::manual_seed(11);
    for (int k = 0; k < 3; ++k) {
      const auto x = torch::ones({kContractBatch, kContractDim}, options_of_tensors());
      layer->forward(x).z().sum().backward();
    }
    return torch::rand({4}, options_of_tensors());
  };
  EXPECT_TRUE(numbers(replaying_).equal(numbers(evaluating_)));
}

TEST_P(ReplayContract, StatesAndGradientsAreTheUsersOwn) {
  const auto x = draw();
  for (uint64_t k = 0; k < 3; ++k) pass(replaying_, x, k);
  const auto first = pass(replaying_, x, 1);
  const auto z = first.z.clone();
  std::vector<torch::Tensor> gradients;
  for (const auto& gradient : first.gradients) gradients.push_back(gradient.clone());
  pass(replaying_, draw(), 2);
  EXPECT_TRUE(first.z.equal(z));
  for (size_t i = 0; i < gradients.size(); ++i) EXPECT_TRUE(first.gradients[i].equal(gradients[i]));
}

TEST_P(ReplayContract, ARecordingIsFreeWhenItsBackwardIsOver) {
  std::vector<Equilibrated> kept;
  const auto x = draw();
  const auto train = [&] {
    kept.push_back(replaying_->forward(x));
    kept.back().z().square().sum().backward();
  };
  train();
  train();
  const int graphs = recorders_->graphs();
  EXPECT_GT(graphs, 0);
  for (int k = 0; k < 5; ++k) train();
  EXPECT_EQ(recorders_->graphs(), graphs);
  EXPECT_THAT([&] { kept.back().linearization().vjp(x); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("after backward()")));
}

TEST_P(ReplayContract, BackwardMayBeRepeatedWhereTheGraphIsRetained) {
  const auto x = draw();
  const auto gradient = [&](Equilibrium& layer) {
    cell_->zero_grad();
    const auto loss = layer->forward(x).z().square().sum();
    loss.backward({}, /*retain_graph=*/true);
    layer->forward(-x).z().sum().backward();  // another pass in between
    loss.backward();
    return cell_->linear->weight.grad().clone();
  };
  gradient(replaying_);
  EXPECT_LT(test::relative_difference(gradient(replaying_), gradient(evaluating_)), 1e-11);
  const auto loss = replaying_->forward(x).z().square().sum();
  loss.backward();
  EXPECT_ANY_THROW(loss.backward());
}

TEST_P(ReplayContract, ACloneIsALayerOfItsOwn) {
  expect_as_evaluated();
  const auto x = draw();
  const auto before = pass(replaying_, x, 1);
  Equilibrium clone(std::dynamic_pointer_cast<EquilibriumImpl>(replaying_->clone()));
  for (int k = 0; k < 3; ++k) {
    EXPECT_LT(test::relative_difference(clone->forward(2 * x).z(), before.z), 1e-12);
  }
  {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : clone->parameters()) parameter.mul_(0.5);
  }
  for (int k = 0; k < 3; ++k) {
    EXPECT_GT(test::relative_difference(clone->forward(2 * x).z(), before.z), 1e-3);
  }
  expect_same(pass(replaying_, x, 1), before);
}

TEST_P(ReplayContract, FourThreadsUseOneLayer) {
  cell_->dropout->options.p(0.0);
  const auto x = draw();
  const auto expected = pass(evaluating_, x, 1);
  std::vector<std::vector<ContractOutcome>> outcomes(4);
  std::vector<std::thread> threads;
  for (auto& own : outcomes) {
    threads.emplace_back([&] {
      for (uint64_t k = 0; k < 10; ++k) own.push_back(pass(replaying_, x, 1));
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& own : outcomes) {
    ASSERT_EQ(own.size(), 10U);
    for (const auto& outcome : own) expect_same(outcome, expected);
  }
}

TEST_P(ReplayContract, ShapesThatComeAndGoAreRecordedABoundedNumberOfTimes) {
  constexpr int64_t kShapes = 9, kRounds = 20;
  for (int64_t round = 0; round < kRounds; ++round) {
    for (int64_t batch = 1; batch <= kShapes; ++batch) {
      const torch::NoGradGuard no_grad;
      cell_->eval();
      const auto x = draw(batch);
      EXPECT_LT(test::relative_difference(replaying_->forward(x).z(), evaluating_->forward(x).z()),
                1e-12);
    }
  }
  constexpr int kGraphs = 2;  // of a pass without gradients: prepare and f
  EXPECT_GE(recorders_->graphs(), 4 * kGraphs);
  EXPECT_LE(recorders_->graphs(), 9 * kGraphs) << "twice the patience for each that is replaced";
}

TEST_P(ReplayContract, TwoHundredStepsOfTrainingAreTheSame) {
  for (const double gamma : {0.0, 0.5}) {
    const auto train = [&](Replay replay) {
      torch::manual_seed(test::seed());
      ContractCell cell;
      cell->to(device());
      Equilibrium layer(cell, options(replay));
      torch::optim::SGD optimiser(cell->parameters(), torch::optim::SGDOptions(0.05));
      std::vector<double> losses;
      for (uint64_t k = 0; k < 200; ++k) {
        torch::manual_seed(k);
        const auto x = torch::randn({kContractBatch, kContractDim}, options_of_tensors());
        optimiser.zero_grad();
        const auto eq = layer->forward(x);
        auto loss = (eq.z() - x.roll(1, 1)).square().mean();
        if (gamma > 0) {
          loss = loss + gamma * jacobian_penalty(eq.linearization(), {}, ProbeKey{.key = k});
        }
        loss.backward();
        optimiser.step();
        losses.push_back(loss.item<double>());
      }
      return losses;
    };
    const auto replayed = train(Replay::Automatic);
    EXPECT_GT(recorders_->graphs(), 0);
    EXPECT_THAT(replayed, ::testing::Pointwise(::testing::DoubleNear(1e-10), train(Replay::Off)));
  }
}

TEST_P(ReplayContract, CheckedPassesWhereTheKeyIsComplete) {
  cell_->dropout->options.p(0.3);
  Equilibrium checked(cell_, options(Replay::Checked));
  for (uint64_t k = 0; k < 4; ++k) {
    const auto x = draw();
    expect_same(pass(checked, x, k), pass(evaluating_, x, k));
  }
  EXPECT_GT(recorders_->graphs(), 0);
}

TEST_P(ReplayContract, CheckedNamesWhatTheKeyForgot) {
  cell_->forgets = true;
  Equilibrium checked(cell_, options(Replay::Checked));
  for (uint64_t k = 0; k < 3; ++k) pass(checked, draw(), k);
  cell_->scale = 0.3;
  EXPECT_THAT([&] { pass(checked, draw(), 9); },
              ::testing::ThrowsMessage<Error>(::testing::AllOf(
                  ::testing::HasSubstr("f(z)"), ::testing::HasSubstr("replay_key()"))));
}

TEST_P(ReplayContract, CheckedSeesAGradientThatTheKeyForgot) {
  // A branch that only the tape takes.
  struct Leaky : ContractCellImpl {
    State step(const State& z, const Context& context) override {
      auto next = ContractCellImpl::step(z, context);
      if (detaches && torch::GradMode::is_enabled()) next[0] = next[0].detach() + 0 * z[0];
      return next;
    }
    bool detaches = false;
  };
  const auto leaky = std::make_shared<Leaky>();
  leaky->to(device());
  Equilibrium checked(std::static_pointer_cast<Cell>(leaky), options(Replay::Checked));
  const auto train = [&] { checked->forward(draw()).z().square().sum().backward(); };
  for (int k = 0; k < 3; ++k) train();
  leaky->detaches = true;
  EXPECT_THAT(train, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("product with J")));
}

TEST_P(ReplayContract, AnEmptyResultSaysSo) {
  EXPECT_THROW(Equilibrated{}.adjoint(), Error);
  EXPECT_THROW(Equilibrated{}.linearization(), Error);
  EXPECT_THROW(Linearization{}.z(), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, ReplayContract, ::testing::Values(torch::kCPU, torch::kCUDA),
                         [](const auto& device) {
                           return device.param == torch::kCPU ? "cpu" : "cuda";
                         });

}  // namespace
}  // namespace deq

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/version.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <sstream>
#include <thread>

#include "deq/core/cuda.h"
#include "deq/core/error.h"
#include "deq/jacobian/frobenius.h"
#include "deq/nn/equilibrium.h"
#include "support/collected_warnings.h"
#include "support/counted_recorders.h"
#include "support/maps.h"
#include "support/seed.h"

// What a user does to a layer between two passes, replayed against evaluated: on a GPU where there
// is one, and on the CPU with graphs that keep what a GPU's graphs keep.

namespace deq {
namespace {

constexpr int64_t kContractBatch = 4, kContractDim = 6;

/// f(z; x) = scale · m ⊙ tanh(norm(W z)) + x with a mask m by dropout, with statistics where
/// `normalised`.
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
    if (does_nothing_in_prepare) return inputs;
    return {inputs.at(0), mask.defined() ? mask : dropout->forward(torch::ones_like(inputs[0]))};
  }
  State step(const State& z, const Context& context) override {
    ++steps;
    auto inner = linear->forward(z[0]);
    if (norm) inner = norm->forward(inner);
    if (extra_layer) inner = inner.sin();
    if (late.defined()) inner = inner + late;
    if (waits_for_the_device) inner = inner + 0 * inner.sum().item<double>();
    inner = scale * torch::tanh(inner);
    if (context.size() > 1) inner = context[1] * inner;
    return {inner + context[0]};
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
  bool does_nothing_in_prepare = false, waits_for_the_device = false;
  torch::Tensor mask;  // where it is given, instead of the dropout's
  torch::Tensor late;  // registered late, if ever
  std::atomic<int64_t> steps = 0;
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
    recorders_.emplace();
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
    const auto where = cell_->linear->weight.device();
    return torch::randn({batch, kContractDim}, generator_, test::f64()).to(where);
  }

  /// With the same random numbers whichever layer it is.
  ContractOutcome pass(Equilibrium& layer, const torch::Tensor& x, uint64_t seed) const {
    torch::manual_seed(seed);
    return pass(layer, x);
  }

  ContractOutcome pass(Equilibrium& layer, const torch::Tensor& x) const {
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
    expect_replayed();
    change();
    expect_as_evaluated();
  }

  /// A pass like those before it does not ask the cell.
  void expect_replayed() {
    EXPECT_GT(recorders_->graphs(), 0);
    const auto steps = cell_->steps.load();
    pass(replaying_, draw());
    EXPECT_EQ(cell_->steps, steps) << "evaluated, not replayed";
  }

  static void expect_one_line(const test::CollectedWarnings& warnings, const char* why) {
    ASSERT_EQ(warnings.messages().size(), 1U) << ::testing::PrintToString(warnings.messages());
    EXPECT_THAT(
        warnings.messages()[0],
        ::testing::AllOf(::testing::HasSubstr("is evaluated step by step"),
                         ::testing::HasSubstr(why), ::testing::Not(::testing::HasSubstr("\n"))));
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
  EXPECT_GT(recorders_->graphs(), 0);
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

TEST_P(ReplayContract, AParameterAndABufferAreRegisteredLate) {
  const auto numbers = [this] { return draw(1).squeeze(0); };
  expect_right_after([&] { cell_->late = cell_->register_parameter("late", numbers()); });
  expect_replayed();
  use(ContractCell());
  expect_right_after([&] { cell_->late = cell_->register_buffer("late", numbers()); });
  expect_replayed();
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
  EXPECT_EQ(recorders_->graphs(), 2) << "prepare and f";
  cell_->train();
  expect_as_evaluated();
  expect_replayed();
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
  EXPECT_GT(recorders_->graphs(), 0);
}

TEST_P(ReplayContract, StatesAndGradientsAreTheUsersOwn) {
  const auto x = draw();
  for (uint64_t k = 0; k < 3; ++k) pass(replaying_, x, k);
  const auto first = pass(replaying_, x, 1);
  const auto z = first.z.clone();
  std::vector<torch::Tensor> gradients;
  for (const auto& gradient : first.gradients) gradients.push_back(gradient.clone());
  expect_replayed();
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
  EXPECT_GT(recorders_->graphs(), 0);
  const auto loss = replaying_->forward(x).z().square().sum();
  loss.backward();
  EXPECT_ANY_THROW(loss.backward());
}

TEST_P(ReplayContract, ACloneIsALayerOfItsOwn) {
  expect_as_evaluated();
  expect_replayed();
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

/// Some numbers of the device's own generator. On a GPU torch throws while another thread records
/// work that draws as well; afterwards nothing may be broken.
torch::Tensor draw_beside_recordings(const torch::TensorOptions& options, bool may_throw) {
  for (int attempt = 0; may_throw && attempt < 1000; ++attempt) {
    try {
      return torch::rand({8}, options);
    } catch (const c10::Error& error) {
      EXPECT_THAT(error.what_without_backtrace(), ::testing::HasSubstr("outside graph capture"));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return torch::rand({8}, options);
}

/// That of a pass with dropout, which its result betrays.
torch::Tensor mask_of(ContractCellImpl& cell, const ContractOutcome& outcome,
                      const torch::Tensor& x) {
  const torch::NoGradGuard no_grad;
  const double kept = 1 / (1 - cell.dropout->options.p());
  const auto inner = cell.scale * torch::tanh(cell.linear->forward(outcome.z));
  return kept * ((outcome.z - 2 * x) / inner > kept / 2).to(torch::kFloat64);
}

TEST_P(ReplayContract, FourThreadsUseOneLayerAndDrawRandomNumbers) {
  for (const double p : {0.0, 0.3}) {
    SCOPED_TRACE(p);
    use(ContractCell());
    cell_->dropout->options.p(p);
    const int graphs = recorders_->graphs();
    const bool may_throw = device().is_cuda() && p > 0;
    const auto x = draw();
    std::vector<std::vector<ContractOutcome>> outcomes(4);
    std::vector<std::string> errors(4);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          for (int k = 0; k < 10; ++k) {
            outcomes[i].push_back(pass(replaying_, x));
            const auto numbers = draw_beside_recordings(options_of_tensors(), may_throw);
            if (numbers.min().item<double>() < 0) errors[i] = "rand() gave a number below 0";
          }
        } catch (const std::exception& error) {
          errors[i] = error.what();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_THAT(errors, ::testing::Each(::testing::IsEmpty()));
    EXPECT_GT(recorders_->graphs(), graphs);
    for (const auto& own : outcomes) {
      ASSERT_EQ(own.size(), 10U);
      for (const auto& outcome : own) {
        cell_->mask = mask_of(*cell_, outcome, x);
        expect_same(outcome, pass(evaluating_, x));
      }
    }
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

TEST_P(ReplayContract, ARecordingThatFailsLeavesEverythingAsItWas) {
  cell_->dropout->options.p(0.3);
  cell_->waits_for_the_device = true;
  test::CollectedWarnings warnings;
  expect_as_evaluated(5);
  EXPECT_EQ(recorders_->graphs(), 1) << "prepare; the step fails";
  expect_one_line(warnings, device().is_cuda() ? "capturing" : "waits for the device");
  EXPECT_GE(torch::rand({8}, options_of_tensors()).min().item<double>(), 0);
  use(ContractCell());
  cell_->dropout->options.p(0.3);
  expect_as_evaluated();
  expect_replayed();
  EXPECT_EQ(warnings.messages().size(), 1U) << ::testing::PrintToString(warnings.messages());
}

TEST_P(ReplayContract, APenaltyThatCannotBeRecordedIsEvaluated) {
  cell_->dropout->options.p(0.3);
  recorders_->fail_at(6);  // the first five are the pass's own
  test::CollectedWarnings warnings;
  expect_as_evaluated(5);
  EXPECT_EQ(recorders_->graphs(), 5);
  expect_one_line(warnings, "this graph is to fail");
  expect_replayed();
}

TEST_P(ReplayContract, APenaltyInsideAnotherPassIsEvaluated) {
  // A recording would wait for the end of that pass, for ever.
  const auto x = draw();
  const auto gradients = [&](Equilibrium& layer) {
    for (int k = 0; k < 2; ++k) layer->forward(x).z().sum().backward();
    const auto eq = layer->forward(x);
    torch::Tensor penalty;
    const Pass inside{.callback = [&](const Progress&) {
      const torch::AutoGradMode grad(true);
      if (!penalty.defined()) {
        penalty = jacobian_penalty(eq.linearization(), {}, ProbeKey{.key = 5});
      }
      return true;
    }};
    evaluating_->forward({x}, inside);
    return torch::autograd::grad({penalty + eq.z().square().sum()}, cell_->parameters());
  };
  const auto replayed = gradients(replaying_), evaluated = gradients(evaluating_);
  EXPECT_EQ(recorders_->graphs(), 5);
  for (size_t i = 0; i < evaluated.size(); ++i) {
    EXPECT_LT(test::relative_difference(replayed[i], evaluated[i]), 1e-11) << "parameter " << i;
  }
}

TEST_P(ReplayContract, APrepareThatDoesNothingIsSilent) {
  cell_->does_nothing_in_prepare = true;
  test::CollectedWarnings warnings;
  expect_as_evaluated();
  expect_replayed();
  EXPECT_THAT(warnings.messages(), ::testing::IsEmpty());
}

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11
TEST_P(ReplayContract, TorchsNewerPrecisionSettingsAreUsed) {
  const auto set = [](at::Float32Precision precision) {
    at::globalContext().setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL,
                                            precision);
  };
  expect_as_evaluated();
  const int graphs = recorders_->graphs();
  EXPECT_GT(graphs, 0);
  set(at::Float32Precision::TF32);
  EXPECT_ANY_THROW(at::globalContext().allowTF32CuBLAS()) << "torch's older question";
  expect_as_evaluated();
  EXPECT_GT(recorders_->graphs(), graphs) << "the change was not noticed";
  Equilibrium checked(cell_, options(Replay::Checked));
  for (uint64_t k = 0; k < 3; ++k) pass(checked, draw(), k);
  set(at::Float32Precision::NONE);
}
#endif

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

class ReplayContractOnGpu : public ReplayContract {};

TEST_P(ReplayContractOnGpu, ALayerMovesToTheCpuAndBack) {
  cell_->dropout->options.p(0.3);
  for (const auto where : {torch::kCPU, torch::kCUDA}) {
    expect_right_after([&] { replaying_->to(where); });
    expect_replayed();
  }
}

TEST_P(ReplayContractOnGpu, RecordingsThatFailGiveTheirMemoryBack) {
  auto* const memory = c10::getDeviceAllocator(torch::kCUDA);
  const auto reserved = [&] {
    use(ContractCell());
    cell_->dropout->options.p(0.3);
    cell_->waits_for_the_device = true;
    test::CollectedWarnings warnings;
    for (uint64_t k = 0; k < 3; ++k) pass(replaying_, draw(), k);
    expect_one_line(warnings, "capturing");
    use(ContractCell());
    memory->emptyCache();
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return memory->getDeviceStats(0).reserved_bytes[kAll].current;
  };
  reserved();  // workspaces of libraries, which stay
  const auto before = reserved();
  for (int k = 0; k < 3; ++k) EXPECT_EQ(reserved(), before) << "bytes after failure " << k;
}

INSTANTIATE_TEST_SUITE_P(Devices, ReplayContractOnGpu, ::testing::Values(torch::kCUDA),
                         [](const auto&) { return "cuda"; });

INSTANTIATE_TEST_SUITE_P(Devices, ReplayContract, ::testing::Values(torch::kCPU, torch::kCUDA),
                         [](const auto& device) {
                           return device.param == torch::kCPU ? "cpu" : "cuda";
                         });

}  // namespace
}  // namespace deq

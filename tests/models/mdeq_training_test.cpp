#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "deq/core/cuda.h"
#include "deq/core/precision.h"
#include "models/mdeq_fixture.h"
#include "support/differences.h"
#include "support/maps.h"

// The authors' training, step by step: what the head sees, how budgets count, where the adjoint
// starts and which iterate a solve that does not converge gives. In float64 all of it agrees; other
// precisions follow as far as they go.

namespace deq::models {
namespace {

struct Way {
  torch::DeviceType device;
  Precision precision;
};

struct TrainingStep {
  int64_t index;
  bool is_solved;  ///< else unrolled
  torch::Tensor loss;
  std::optional<torch::Tensor> penalty;
  const Equilibrated& equilibrium;
};

class MdeqTraining : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !cuda_status().available) GTEST_SKIP() << cuda_status().reason;
    model_->to(device(), type());
  }

  static torch::Device device() { return GetParam().device; }
  static torch::ScalarType type() { return storage_type(GetParam().precision); }

  torch::Tensor on_device(const std::string& name) const {
    const auto& tensor = fixture_[name];
    return tensor.is_floating_point() ? tensor.to(device(), type()) : tensor.to(device());
  }

  /// Adam's steps on the published batches; `see` looks at each when its gradients are there.
  void train(const std::function<void(const TrainingStep&)>& see) {
    const TensorFloat32Scope products(GetParam().precision, device());
    const int64_t steps = training_.at("steps"), pretraining = training_.at("pretrain_steps");
    const double gamma = training_.at("gamma");
    const auto images = on_device("in.image"), labels = on_device("in.label");
    torch::optim::Adam adam(model_->parameters(), torch::optim::AdamOptions(1e-3));
    model_->train();
    for (int64_t step = 0; step < steps; ++step) {
      const bool solves = step >= pretraining;
      std::optional<PrecisionScope> precision(std::in_place, GetParam().precision, device());
      const auto output = model_->forward(images[step], solves ? solved() : unrolled());
      const auto loss = torch::nn::functional::cross_entropy(output.logits, labels[step]);
      std::optional<torch::Tensor> penalty;
      if (fixture_.has("in.probe." + std::to_string(step))) {
        penalty = output.equilibrium.linearization()
                      .vjp(probe(step, output.equilibrium.state), /*differentiable=*/true)
                      .square()
                      .mean();
      }
      precision.reset();  // backward computes in the types of forward
      adam.zero_grad();
      (penalty ? loss + gamma * *penalty : loss).backward();
      see({step, solves, loss, penalty, output.equilibrium});
      adam.step();
    }
  }

  SolverOptions solver(int64_t evals) const {
    return Broyden{.tol = {.rtol = training_.at("rtol"), .scope = NormScope::WholeBatch},
                   .max_evals = evals};
  }

  EquilibriumOptions unrolled() const {
    return {.gradient = Unrolled{.steps = training_.at("unrolled_layers")}};
  }

  /// A published threshold counts the steps that follow the look at the start. The adjoint's look
  /// costs nothing here.
  EquilibriumOptions solved() const {
    return {.forward = solver(1 + training_.at("forward_threshold").get<int64_t>()),
            .gradient = Implicit{.solver = solver(training_.at("adjoint_threshold"))}};
  }

  double logged(const std::string& what, int64_t step) const {
    return fixture_["log." + what][step].item<double>();
  }

  /// A published probe, scale after scale with the last dimension fastest, as this state lies.
  torch::Tensor probe(int64_t step, const State& like) const {
    const auto published = on_device("in.probe." + std::to_string(step)).squeeze(-1);
    State scales;
    int64_t begin = 0;
    for (const auto& scale : like) {
      const auto size = scale.numel() / scale.size(0);
      scales.push_back(published.narrow(1, begin, size).reshape(scale.sizes()));
      begin += size;
    }
    return StateLayout::of(like).pack(scales);
  }

  /// The relative residual as the authors have it.
  static double published_residual(const Report& report) {
    const auto& any = report.samples.front();  // all are those of the whole batch
    return any.absolute / (any.absolute / any.relative + 1e-9);
  }

  double gradient_norm() const {
    double squares = 0;
    for (const auto& parameter : model_->parameters()) {
      if (parameter.grad().defined()) squares += parameter.grad().square().sum().item<double>();
    }
    return std::sqrt(squares);
  }

  test::MdeqFixture fixture_{"mdeq_training.safetensors"};
  nlohmann::json training_ = nlohmann::json::parse(fixture_.metadata("training"));
  MdeqClassifier model_ = fixture_.model();
};

using MdeqTrainingExactly = MdeqTraining;

TEST_P(MdeqTrainingExactly, RepeatsTheAuthorsSteps) {
  constexpr double kTolerance = 1e-9;
  train([&](const TrainingStep& step) {
    const auto expect_logged = [&](const std::string& what, double value) {
      EXPECT_NEAR(value, logged(what, step.index), kTolerance * logged(what, step.index))
          << what << " of step " << step.index;
    };
    expect_logged("loss", step.loss.item<double>());
    if (step.penalty) expect_logged("penalty", step.penalty->item<double>());
    expect_logged("grad_norm", gradient_norm());
    if (step.is_solved) {
      expect_logged("residual", published_residual(step.equilibrium.report));
      expect_logged("adjoint_residual", published_residual(step.equilibrium.adjoint()));
    }
    const auto gradients = "step." + std::to_string(step.index) + ".grad.";
    if (!fixture_.names(gradients).empty()) {
      test::expect_gradients(*model_, fixture_, gradients, kTolerance);
    }
  });
  for (const auto& item : model_->named_parameters()) {
    if (fixture_.cancels(item.key())) continue;  // Adam takes whole steps along the rounding
    EXPECT_LT(test::relative_difference(item.value(), on_device("final." + item.key())), kTolerance)
        << item.key();
  }
  for (const auto& item : model_->named_buffers()) {
    if (!item.key().ends_with("running_var")) continue;  // some means hold such a bias
    EXPECT_LT(test::relative_difference(item.value(), on_device("final." + item.key())), kTolerance)
        << item.key();
  }
}

/// Half a unit in the last place of what products are rounded to.
double rounding_of(Precision precision) {
  switch (precision) {
    case Precision::Float64:
      return 0x1p-53;
    case Precision::Float32:
      return 0x1p-24;
    case Precision::TensorFloat32:
      return 0x1p-11;
    case Precision::BFloat16:
      return 0x1p-8;
  }
  return 0;
}

// Adam takes whole steps along gradients that are rounding alone, so any two roundings part after a
// few steps: two CPUs in float32 were 0.004 apart after six, and no precision was further than 0.03
// from the authors' after that. The mean does not move.
TEST_P(MdeqTraining, LossesFollowTheAuthors) {
  std::vector<double> differences;
  train([&](const TrainingStep& step) {
    differences.push_back(step.loss.item<double>() / logged("loss", step.index) - 1);
  });
  EXPECT_LT(std::abs(differences.front()), 4 * rounding_of(GetParam().precision));
  EXPECT_THAT(differences, testing::Each(testing::AllOf(testing::Gt(-0.08), testing::Lt(0.08))));
  const auto sum = std::accumulate(differences.begin(), differences.end(), 0.0);
  EXPECT_LT(std::abs(sum / static_cast<double>(differences.size())), 0.015);
}

std::string name_of(const ::testing::TestParamInfo<Way>& tested) {
  const auto& way = tested.param;
  const char* precision = way.precision == Precision::Float64         ? "float64"
                          : way.precision == Precision::Float32       ? "float32"
                          : way.precision == Precision::TensorFloat32 ? "tf32"
                                                                      : "bfloat16";
  return fmt::format("{}_{}", way.device == torch::kCPU ? "cpu" : "cuda", precision);
}

INSTANTIATE_TEST_SUITE_P(Ways, MdeqTrainingExactly,
                         ::testing::Values(Way{torch::kCPU, Precision::Float64},
                                           Way{torch::kCUDA, Precision::Float64}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Ways, MdeqTraining,
                         ::testing::Values(Way{torch::kCPU, Precision::Float32},
                                           Way{torch::kCUDA, Precision::Float32},
                                           Way{torch::kCUDA, Precision::TensorFloat32},
                                           Way{torch::kCUDA, Precision::BFloat16}),
                         name_of);

}  // namespace
}  // namespace deq::models

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>

#include <nlohmann/json.hpp>

#include "deq/core/cuda.h"
#include "models/mdeq_fixture.h"
#include "support/differences.h"

// The authors' training, step by step, in float64: what the head sees, how budgets count, where the
// adjoint starts and which iterate a solve that does not converge gives.

namespace deq::models {
namespace {

class MdeqTraining : public ::testing::TestWithParam<torch::DeviceType> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !cuda_status().available) GTEST_SKIP() << cuda_status().reason;
    model_->to(device());
  }

  static torch::Device device() { return GetParam(); }

  torch::Tensor on_device(const std::string& name) const { return fixture_[name].to(device()); }

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

TEST_P(MdeqTraining, RepeatsTheAuthorsSteps) {
  constexpr double kTolerance = 1e-9;
  const int64_t steps = training_.at("steps"), pretraining = training_.at("pretrain_steps");
  const double gamma = training_.at("gamma");
  const auto images = on_device("in.image"), labels = on_device("in.label");
  torch::optim::Adam adam(model_->parameters(), torch::optim::AdamOptions(1e-3));
  model_->train();
  const auto expect_logged = [&](const std::string& what, int64_t step, double value) {
    EXPECT_NEAR(value, logged(what, step), kTolerance * logged(what, step))
        << what << " of step " << step;
  };
  for (int64_t step = 0; step < steps; ++step) {
    const bool solves = step >= pretraining;
    const auto output = model_->forward(images[step], solves ? solved() : unrolled());
    const auto loss = torch::nn::functional::cross_entropy(output.logits, labels[step]);
    auto objective = loss;
    if (fixture_.has("in.probe." + std::to_string(step))) {
      const auto penalty = output.equilibrium.linearization()
                               .vjp(probe(step, output.equilibrium.state), /*differentiable=*/true)
                               .square()
                               .mean();
      expect_logged("penalty", step, penalty.item<double>());
      objective = loss + gamma * penalty;
    }
    adam.zero_grad();
    objective.backward();
    expect_logged("loss", step, loss.item<double>());
    expect_logged("grad_norm", step, gradient_norm());
    if (solves) {
      expect_logged("residual", step, published_residual(output.equilibrium.report));
      expect_logged("adjoint_residual", step, published_residual(output.equilibrium.adjoint()));
    }
    const auto gradients = "step." + std::to_string(step) + ".grad.";
    if (!fixture_.names(gradients).empty()) {
      test::expect_gradients(*model_, fixture_, gradients, kTolerance);
    }
    adam.step();
  }
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

INSTANTIATE_TEST_SUITE_P(Devices, MdeqTraining, ::testing::Values(torch::kCPU, torch::kCUDA),
                         [](const auto& tested) {
                           return tested.param == torch::kCPU ? "cpu" : "cuda";
                         });

}  // namespace
}  // namespace deq::models

#include "deq/core/precision.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "deq/jacobian/frobenius.h"
#include "deq/nn/equilibrium.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(int64_t d)
      : w(register_module("w", torch::nn::Linear(d, d))),
        u(register_module("u", torch::nn::Linear(d, d))) {
    const torch::NoGradGuard no_grad;
    w->weight.mul_(0.5);
  }
  torch::Tensor forward(const torch::Tensor& z, const torch::Tensor& x) {
    const auto product = w(z) + u(x);
    computed = product.scalar_type();
    return torch::tanh(product);
  }
  torch::nn::Linear w, u;
  torch::ScalarType computed = torch::kFloat32;
};
TORCH_MODULE(Layer);

struct Outcome {
  torch::Tensor z;
  double loss = 0, residual = 0;
  std::vector<torch::Tensor> gradients;
};

Outcome pass(Equilibrium& layer, const torch::Tensor& x, Precision precision) {
  layer->zero_grad();
  Outcome outcome;
  torch::Tensor loss;
  {
    const PrecisionScope scope(precision, torch::kCPU);
    const auto equilibrium = layer->forward(x);
    outcome.z = equilibrium.z().detach();
    outcome.residual = equilibrium.report.mean_relative();
    loss = equilibrium.z().square().mean() +
           jacobian_penalty(equilibrium.linearization(), {}, ProbeKey{.key = 7});
  }
  loss.backward();
  outcome.loss = loss.item<double>();
  for (const auto& parameter : layer->parameters()) {
    outcome.gradients.push_back(parameter.grad().clone());
  }
  return outcome;
}

// Weights are cast inside the solve, where no graph is built, and again at z*, where one must
// be: a cast kept from the former would lose the gradient.
TEST(Precision, Bfloat16ComputesThereAndKeepsStateAndGradientsInFloat32) {
  torch::manual_seed(static_cast<int64_t>(test::seed()));
  auto generator = test::generator();
  Layer module(32);
  Equilibrium layer(module, EquilibriumOptions{.forward = Anderson{.max_evals = 30}});
  const auto x = torch::randn({8, 32}, generator);
  const auto exact = pass(layer, x, Precision::Float32);
  EXPECT_EQ(module->computed, torch::kFloat32);
  const auto rounded = pass(layer, x, Precision::BFloat16);
  EXPECT_EQ(module->computed, torch::kBFloat16);
  EXPECT_EQ(rounded.z.scalar_type(), torch::kFloat32);
  EXPECT_FALSE(rounded.z.equal(exact.z));
  EXPECT_TRUE(torch::allclose(rounded.z, exact.z, 0, 0.02));
  EXPECT_NEAR(rounded.loss, exact.loss, 0.02 * exact.loss);
  for (size_t i = 0; i < exact.gradients.size(); ++i) {
    EXPECT_EQ(rounded.gradients[i].scalar_type(), torch::kFloat32);
    const double scale = exact.gradients[i].norm().item<double>();
    ASSERT_GT(scale, 0);
    EXPECT_LT((rounded.gradients[i] - exact.gradients[i]).norm().item<double>(), 0.05 * scale) << i;
  }
}

TEST(Precision, AScopeLeavesThingsAsTheyWere) {
  EXPECT_FALSE(at::autocast::is_autocast_enabled(torch::kCPU));
  {
    const PrecisionScope outer(Precision::BFloat16, torch::kCPU);
    EXPECT_TRUE(at::autocast::is_autocast_enabled(torch::kCPU));
    {
      const PrecisionScope inner(Precision::Float32, torch::kCPU);
      EXPECT_FALSE(at::autocast::is_autocast_enabled(torch::kCPU));
    }
    EXPECT_TRUE(at::autocast::is_autocast_enabled(torch::kCPU));
  }
  EXPECT_FALSE(at::autocast::is_autocast_enabled(torch::kCPU));
}

}  // namespace
}  // namespace deq::lab

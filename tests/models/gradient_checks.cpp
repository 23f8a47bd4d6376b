#include "models/gradient_checks.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cmath>

#include "support/seed.h"

namespace deq::test {
namespace {

double size(const torch::Tensor& tensor) {
  return tensor.norm().item<double>();
}

}  // namespace

void expect_gradients_of_unrolled(
    const torch::nn::Module& model,
    const std::function<torch::Tensor(const EquilibriumOptions&)>& loss,
    const EquilibriumOptions& implicit, int64_t steps) {
  const auto parameters = model.named_parameters();
  const auto found = torch::autograd::grad({loss(implicit)}, parameters.values());
  const EquilibriumOptions unrolled{.gradient = Unrolled{.steps = steps}};
  const auto expected = torch::autograd::grad({loss(unrolled)}, parameters.values());
  double largest = 0;
  for (const auto& gradient : expected) largest = std::max(largest, size(gradient));
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LT(size(found[i] - expected[i]), 1e-9 * std::max(size(expected[i]), 1e-6 * largest))
        << parameters.keys()[i];
  }
}

void expect_gradients_of_differences(const torch::nn::Module& model,
                                     const std::function<torch::Tensor()>& loss) {
  const auto parameters = model.parameters();
  const auto gradients = torch::autograd::grad({loss()}, parameters);
  auto random = generator();
  std::vector<torch::Tensor> direction;
  double slope = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    direction.push_back(torch::randn(parameters[i].sizes(), random, parameters[i].options()));
    slope += (direction[i] * gradients[i]).sum().item<double>();
  }
  const torch::NoGradGuard no_grad;
  const auto moved = [&](double by) {
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].add_(direction[i], by);
    const double cost = loss().item<double>();
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].add_(direction[i], -by);
    return cost;
  };
  const double spacing = 1e-7;
  EXPECT_NEAR((moved(spacing) - moved(-spacing)) / (2 * spacing), slope, 1e-6 * std::abs(slope));
}

}  // namespace deq::test

#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "support/maps.h"

// What every explicit network must do, whatever it is made of.

namespace deq::test {

/// dL/dθ along one direction through all parameters, by backward and by central differences, in
/// train mode: what is overwritten in place must not be needed any more.
template <class Network>
void expect_gradients_match_differences(Network& network, const torch::Tensor& images,
                                        at::Generator generator) {
  network->to(torch::kFloat64);
  network->train();
  const auto loss = [&] { return network(images).square().mean(); };
  loss().backward();
  const torch::NoGradGuard no_grad;
  const auto parameters = network->parameters();
  std::vector<torch::Tensor> directions;
  double slope = 0;
  for (const auto& parameter : parameters) {
    // Every parameter's own gradient with noise of the same size: the slopes add up.
    const auto noise = torch::randn(parameter.sizes(), generator, f64());
    const auto& gradient = parameter.grad();
    directions.push_back(gradient / gradient.norm() + noise / noise.norm());
    slope += (directions.back() * gradient).sum().template item<double>();
  }
  const auto at = [&](double step) {
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].add_(directions[i], step);
    const double value = loss().template item<double>();
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].sub_(directions[i], step);
    return value;
  };
  constexpr double kSpacing = 1e-8;  // small: few ReLUs change sides
  EXPECT_NEAR((at(kSpacing) - at(-kSpacing)) / (2 * kSpacing) / slope, 1, 1e-4);
}

/// In eval mode a sample's logits are its own; in train mode they depend on the batch, and the
/// running statistics follow.
template <class Network>
void expect_batch_norm_follows_the_mode(Network& network, const torch::Tensor& images,
                                        const std::string& first_norm) {
  const torch::NoGradGuard no_grad;
  network->to(torch::kFloat64);
  const auto first = images.slice(0, 0, 1);
  const auto buffer = [&](const char* name) {
    return network->named_buffers()[first_norm + "." + name];
  };
  network->eval();
  const auto before = network(images);
  EXPECT_LT(relative_difference(before.slice(0, 0, 1), network(first)), 1e-12);
  EXPECT_EQ(buffer("num_batches_tracked").template item<int64_t>(), 0);
  network->train();
  const auto trained = network(images);
  EXPECT_GT(relative_difference(trained.slice(0, 0, 1), before.slice(0, 0, 1)), 1e-3);
  EXPECT_EQ(buffer("num_batches_tracked").template item<int64_t>(), 1);
  network->eval();
  EXPECT_GT(relative_difference(network(images), before), 1e-3);
}

/// The running statistics of the first norm after one batch in train mode: a tenth of the batch's.
template <class Network>
void expect_running_statistics(Network& network, const torch::Tensor& images,
                               const std::string& first_convolution,
                               const std::string& first_norm) {
  const torch::NoGradGuard no_grad;
  network->to(torch::kFloat64);
  network->train();
  const auto weight = network->named_parameters()[first_convolution + ".weight"];
  const auto features = torch::conv2d(images, weight, {}, 1, weight.size(2) / 2);
  const auto flat = features.transpose(0, 1).flatten(1);
  network(images);
  const auto buffers = network->named_buffers();
  EXPECT_LT(relative_difference(buffers[first_norm + ".running_mean"], 0.1 * flat.mean(1)), 1e-10);
  EXPECT_LT(relative_difference(buffers[first_norm + ".running_var"], 0.9 + 0.1 * flat.var(1)),
            1e-10);
}

}  // namespace deq::test

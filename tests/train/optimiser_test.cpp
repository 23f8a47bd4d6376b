#include "deq/lab/train/optimiser.h"

#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <functional>
#include <memory>

#include "deq/core/error.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using torch::Tensor;
using OptimiserOracle =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<Tensor>)>;

struct Case {
  const char* name;
  OptimiserOptions options;
  OptimiserOracle oracle;
};

const Case kCases[] = {
    {"adam", Adam{},
     [](auto p) { return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(0)); }},
    {"adam_with_decay", Adam{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1},
     [](auto p) {
       return std::make_unique<torch::optim::Adam>(
           p, torch::optim::AdamOptions(0).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.1));
     }},
    {"adamw", AdamW{.weight_decay = 0.3},
     [](auto p) {
       return std::make_unique<torch::optim::AdamW>(
           p, torch::optim::AdamWOptions(0).weight_decay(0.3));
     }},
    {"nesterov", Sgd{.momentum = 0.7, .nesterov = true, .weight_decay = 0.2},
     [](auto p) {
       return std::make_unique<torch::optim::SGD>(
           p, torch::optim::SGDOptions(0).momentum(0.7).nesterov(true).weight_decay(0.2));
     }},
    {"momentum", Sgd{.momentum = 0.5, .nesterov = false},
     [](auto p) {
       return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0).momentum(0.5));
     }},
    {"plain_sgd", Sgd{.momentum = 0, .nesterov = false},
     [](auto p) { return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0)); }},
};

class OptimiserTest : public testing::TestWithParam<Case> {};

// The fused kernels against libtorch's own plain optimisers, over steps of changing rate, one
// parameter without a gradient now and then.
TEST_P(OptimiserTest, StepsAsLibtorchsOwn) {
  auto generator = test::generator();
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    std::vector<Tensor> ours, theirs;
    for (const auto& shape : std::vector<std::vector<int64_t>>{{3, 4}, {5}, {}, {2, 1, 7}}) {
      const auto start = torch::randn(shape, generator, type);
      ours.push_back(start.clone().requires_grad_());
      theirs.push_back(start.clone().requires_grad_());
    }
    Optimiser::NamedParameters named;
    for (size_t i = 0; i < ours.size(); ++i) named.emplace_back(std::to_string(i), ours[i]);
    Optimiser optimiser(GetParam().options, named);
    const auto oracle = GetParam().oracle(theirs);
    for (int step = 0; step < 20; ++step) {
      const double lr = 0.05 / (1 + step);
      for (size_t i = 0; i < ours.size(); ++i) {
        const bool missing = step % 3 == 1 && i == 1;
        const auto gradient = torch::randn(ours[i].sizes(), generator, type);
        ours[i].mutable_grad() = missing ? Tensor() : gradient;
        theirs[i].mutable_grad() = missing ? Tensor() : gradient.clone();
      }
      for (auto& group : oracle->param_groups()) group.options().set_lr(lr);
      optimiser.step(lr);
      oracle->step();
    }
    const double tolerance = type == torch::kFloat32 ? 2e-5 : 1e-12;
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(torch::allclose(ours[i], theirs[i], tolerance, tolerance))
          << type << " parameter " << i << "\n"
          << ours[i] << "\n"
          << theirs[i];
    }
  }
}

// What a checkpoint keeps is enough to go on to the same bits.
TEST_P(OptimiserTest, GoesOnFromItsState) {
  auto generator = test::generator();
  const auto start = torch::randn({6}, generator);
  auto a = start.clone().requires_grad_(), b = start.clone().requires_grad_();
  Optimiser first(GetParam().options, {{"w", a}}), second(GetParam().options, {{"w", b}});
  const auto step = [&generator](Optimiser& optimiser, Tensor& parameter, const Tensor& gradient) {
    parameter.mutable_grad() = gradient;
    optimiser.step(0.01);
  };
  for (int i = 0; i < 5; ++i) step(first, a, torch::randn({6}, generator));
  {
    const torch::NoGradGuard no_grad;
    b.copy_(a);
    const auto from = first.state();
    for (auto& [name, tensor] : second.state()) tensor.copy_(from.at(name));
  }
  for (int i = 0; i < 5; ++i) {
    const auto gradient = torch::randn({6}, generator);
    step(first, a, gradient.clone());
    step(second, b, gradient.clone());
  }
  EXPECT_TRUE(a.equal(b));
}

INSTANTIATE_TEST_SUITE_P(All, OptimiserTest, ::testing::ValuesIn(kCases),
                         [](const auto& tested) { return tested.param.name; });

TEST(Optimiser, RefusesWhatIsOutOfRange) {
  EXPECT_THROW(validate(Adam{.beta1 = 1}), Error);
  EXPECT_THROW(validate(AdamW{.eps = 0}), Error);
  EXPECT_THROW(validate(Sgd{.momentum = 0, .nesterov = true}), Error);
  EXPECT_THROW(validate(Sgd{.weight_decay = -1}), Error);
}

TEST(Gradients, NormAndScale) {
  auto a = torch::zeros({2}).requires_grad_(), b = torch::zeros({1}).requires_grad_();
  auto unused = torch::zeros({3}).requires_grad_();
  a.mutable_grad() = torch::tensor({3.0F, 0.0F});
  b.mutable_grad() = torch::tensor({4.0F});
  EXPECT_DOUBLE_EQ(gradient_norm({a, b, unused}), 5.0);
  scale_gradients({a, b, unused}, 0.5);
  EXPECT_DOUBLE_EQ(gradient_norm({a, b, unused}), 2.5);
  b.mutable_grad() = torch::tensor({NAN});
  EXPECT_TRUE(std::isnan(gradient_norm({a, b})));
}

}  // namespace
}  // namespace deq::lab

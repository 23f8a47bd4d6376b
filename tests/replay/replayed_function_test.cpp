#include "replay/replayed_function.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "support/counted_recorders.h"
#include "support/maps.h"
#include "support/seed.h"

// A linear layer and a batch norm, replayed, against the same evaluated: values, gradients,
// statistics.

namespace deq {
namespace {

struct Layers {
  torch::nn::Linear linear{5, 3};
  torch::nn::BatchNorm1d norm{3};

  Layers() {
    linear->to(torch::kFloat64);
    norm->to(torch::kFloat64);
  }
  torch::Tensor operator()(const std::vector<torch::Tensor>& inputs) {
    return norm(linear(inputs[0])) * inputs[1];
  }
  std::vector<torch::Tensor> parameters() const {
    auto all = linear->parameters();
    for (const auto& parameter : norm->parameters()) all.push_back(parameter);
    return all;
  }
};

class ReplayedFunctionTest : public test::Seeded {
 protected:
  ReplayedFunctionTest() {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : plain_.parameters()) {
      parameter.copy_(torch::randn(parameter.sizes(), generator_, test::f64()));
    }
    const auto from = plain_.parameters(), to = own_.parameters();
    for (size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }

  /// Values and gradients for the input and all parameters.
  static std::vector<torch::Tensor> pass(
      const std::function<torch::Tensor(const std::vector<torch::Tensor>&)>& function,
      const Layers& layers, const torch::Tensor& x, const torch::Tensor& factor) {
    const auto leaf = x.clone().requires_grad_();
    const auto value = function({leaf, factor});
    auto variables = layers.parameters();
    variables.push_back(leaf);
    auto result = torch::autograd::grad({value.sin().sum()}, variables);
    result.push_back(value.detach());
    result.push_back(layers.norm->running_mean.clone());
    result.push_back(layers.norm->running_var.clone());
    return result;
  }

  const test::CountedRecorders recorders_;
  Layers plain_, own_;
};

TEST_F(ReplayedFunctionTest, GivesTheSameValuesGradientsAndStatistics) {
  ReplayedFunction replayed({own_.linear.ptr(), own_.norm.ptr()},
                            [this](const auto& inputs) { return own_(inputs); });
  for (int k = 0; k < 4; ++k) {
    const auto x = torch::randn({7, 5}, generator_, test::f64());
    const auto factor = torch::randn({7, 1}, generator_, test::f64());
    const auto expected =
        pass([this](const auto& inputs) { return plain_(inputs); }, plain_, x, factor);
    const auto own = pass([&](const auto& inputs) { return replayed(inputs); }, own_, x, factor);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT(test::relative_difference(own[i], expected[i]), 1e-12) << "call " << k << ", " << i;
    }
  }
  EXPECT_EQ(recorders_.graphs(), 2) << "the value and the gradients, once";
}

TEST_F(ReplayedFunctionTest, WithoutGradientsInEvalMode) {
  ReplayedFunction replayed({own_.linear.ptr(), own_.norm.ptr()},
                            [this](const auto& inputs) { return own_(inputs); });
  own_.norm->eval();
  plain_.norm->eval();
  const torch::NoGradGuard no_grad;
  for (int k = 0; k < 3; ++k) {
    const auto x = torch::randn({7, 5}, generator_, test::f64());
    const auto factor = torch::randn({7, 1}, generator_, test::f64());
    EXPECT_LT(test::relative_difference(replayed({x, factor}), plain_({x, factor})), 1e-12);
  }
  EXPECT_EQ(recorders_.graphs(), 1);
}

// A number that lies elsewhere, such as a scalar on the host, is read when the work is enqueued: a
// recording would keep it.
TEST_F(ReplayedFunctionTest, NotWithAnInputOnAnotherDevice) {
  ReplayedFunction replayed({}, [](const auto& inputs) { return 2 * inputs[0]; });
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({7, 5}, generator_, test::f64());
  const auto elsewhere = torch::zeros({}, torch::kMeta);
  for (int k = 0; k < 3; ++k) replayed({x, elsewhere});
  EXPECT_EQ(recorders_.graphs(), 0);
  for (int k = 0; k < 3; ++k) replayed({x, x});
  EXPECT_EQ(recorders_.graphs(), 1);
}

}  // namespace
}  // namespace deq

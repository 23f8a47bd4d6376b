#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include "deq/core/cuda.h"
#include "deq/jacobian/frobenius.h"
#include "deq/models/mdeq/mdeq.h"
#include "deq/models/transformer/transformer.h"
#include "deq/nn/start_distance.h"
#include "support/counted_recorders.h"
#include "support/maps.h"
#include "support/seed.h"

// The library's own models promise that they may be replayed: training with dropout, checked at
// every replay, and against a training that is evaluated.

namespace deq {
namespace {

struct ModelPass {
  torch::Tensor loss;
  Equilibrated equilibrium;
};
using MakePass = std::function<std::function<ModelPass(const EquilibriumPlan&)>(
    std::vector<torch::Tensor>& parameters)>;

class ModelsReplayed : public test::SeededWith<torch::DeviceType> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !cuda_status().available) GTEST_SKIP() << cuda_status().reason;
    recorders_.emplace();
  }
  static torch::Device device() { return GetParam(); }

  static EquilibriumPlan plan(Replay replay, bool unrolled) {
    const Anderson solver{.tol = {.rtol = 0}, .max_evals = 6};
    if (unrolled) {
      return EquilibriumPlan({.forward = solver,
                              .gradient = Unrolled{.steps = 3, .replayed = true},
                              .replay = replay});
    }
    return EquilibriumPlan(
        {.forward = solver, .gradient = Implicit{.solver = solver}, .replay = replay});
  }

  static std::vector<double> train(const MakePass& make, Replay replay) {
    torch::manual_seed(test::seed());
    std::vector<torch::Tensor> parameters;
    const auto pass = make(parameters);
    torch::optim::SGD optimiser(parameters, torch::optim::SGDOptions(1e-3));
    std::vector<double> losses;
    for (uint64_t k = 0; k < 12; ++k) {
      torch::manual_seed(k);
      const bool unrolled = k < 4;
      auto [loss, equilibrium] = pass(plan(replay, unrolled));
      if (!unrolled && k % 2 == 0) {
        loss = loss + 0.1 * jacobian_penalty(equilibrium.linearization(), {}, ProbeKey{.key = k});
      }
      if (!unrolled) loss = loss + 0.1 * start_distance(equilibrium).mean();
      optimiser.zero_grad();
      loss.backward();
      optimiser.step();
      losses.push_back(loss.item<double>());
    }
    return losses;
  }

  void expect_right(const MakePass& make) const {
    const auto evaluated = train(make, Replay::Off);
    EXPECT_EQ(recorders_->graphs(), 0);
    for (const auto replay : {Replay::Automatic, Replay::Checked}) {
      const auto losses = train(make, replay);
      EXPECT_GT(recorders_->graphs(), 0);
      for (size_t k = 0; k < losses.size(); ++k) {
        EXPECT_NEAR(losses[k], evaluated[k], 1e-8 * std::abs(evaluated[k]))
            << replay_name(replay) << ", step " << k;
      }
    }
  }

  std::optional<test::CountedRecorders> recorders_;
};

TEST_P(ModelsReplayed, MultiscaleDeq) {
  expect_right([](std::vector<torch::Tensor>& parameters) {
    models::MdeqClassifier model(models::MdeqOptions{.channels = {8, 16},
                                                     .dropout = 0.2,
                                                     .predicted_start = true,
                                                     .head_channels = {4, 8},
                                                     .final_channels = 20},
                                 at::detail::createCPUGenerator(test::seed()));
    model->to(device(), torch::kFloat64);
    parameters = model->parameters();
    return [model](const EquilibriumPlan& how) mutable {
      const auto images = torch::randn({4, 3, 16, 16}, torch::kFloat64).to(device());
      auto output = model->forward(images, how);
      const auto labels = torch::tensor({1, 2, 3, 4}).to(device());
      return ModelPass{torch::nn::functional::cross_entropy(output.logits, labels),
                       std::move(output.equilibrium)};
    };
  });
}

TEST_P(ModelsReplayed, DeqTransformer) {
  expect_right([](std::vector<torch::Tensor>& parameters) {
    models::DeqTransformer model(models::TransformerOptions{.vocabulary = 100,
                                                            .cutoffs = {40},
                                                            .div_val = 2,
                                                            .d_model = 20,
                                                            .d_embed = 20,
                                                            .heads = 2,
                                                            .d_head = 10,
                                                            .d_inner = 50,
                                                            .tie_projections = {false, true},
                                                            .dropout = 0.1,
                                                            .attention_dropout = 0.1,
                                                            .predicted_start = true},
                                 at::detail::createCPUGenerator(test::seed()));
    model->to(device(), torch::kFloat64);
    parameters = model->parameters();
    return [model](const EquilibriumPlan& how) mutable {
      const auto words = torch::randint(100, {3, 8}, torch::kInt64).to(device());
      auto output = model->forward(words.narrow(1, 0, 7), words.narrow(1, 1, 7), {}, how);
      return ModelPass{output.nll.mean(), std::move(output.reading.equilibrium)};
    };
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, ModelsReplayed, ::testing::Values(torch::kCPU, torch::kCUDA),
                         [](const auto& device) {
                           return device.param == torch::kCPU ? "cpu" : "cuda";
                         });

}  // namespace
}  // namespace deq

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/optim/adam.h>

#include <set>
#include <string>

#include "deq/core/precision.h"
#include "deq/models/mdeq/mdeq.h"
#include "deq/models/transformer/transformer.h"
#include "deq/nn/start_distance.h"
#include "mdeq_small.h"
#include "support/maps.h"
#include "support/seed.h"
#include "transformer_small.h"

// Starts that models predict: zeros at first, trained by their own loss alone.

namespace deq::models {
namespace {

using test::f64;

const EquilibriumOptions kStartPlan{
    .forward = Broyden{.tol = {.rtol = 1e-11}, .max_evals = 100},
    .gradient = Implicit{.solver = Broyden{.tol = {.rtol = 1e-11}, .max_evals = 100}}};

class PredictedStart : public test::Seeded {
 protected:
  static MdeqOptions mdeq_options(size_t scales) {
    auto options = test::small_mdeq(scales);
    options.predicted_start = true;
    return options;
  }
  MdeqCell mdeq(size_t scales) {
    MdeqCell cell(mdeq_options(scales), generator_);
    cell->to(torch::kFloat64);
    return cell;
  }
  TransformerCell transformer() {
    auto options = test::small_transformer();
    options.predicted_start = true;
    TransformerCell cell(options, generator_);
    cell->to(torch::kFloat64);
    return cell;
  }
  torch::Tensor injection() { return torch::randn({3, 4, 8, 8}, generator_, f64()); }
  Inputs text_inputs() {
    return {torch::randn({2, 6, 30}, generator_, f64()), torch::randn({6, 12}, generator_, f64())};
  }

  static void expect_zeros(const State& start) {
    for (const auto& part : start) EXPECT_EQ(part.abs().max().item<double>(), 0);
  }

  /// Parameters that get a gradient of the loss.
  static std::set<std::string> reached(const torch::nn::Module& module, const torch::Tensor& loss) {
    std::set<std::string> names;
    for (const auto& item : module.named_parameters()) {
      if (torch::autograd::grad({loss}, {item.value()}, {}, true, false, true)[0].defined()) {
        names.insert(item.key());
      }
    }
    return names;
  }
  static std::set<std::string> names_of_starts(const torch::nn::Module& module) {
    std::set<std::string> names;
    for (const auto& item : module.named_parameters()) {
      if (item.key().starts_with("start.")) names.insert(item.key());
    }
    return names;
  }

  /// A pass without gradients remembers what was predicted, not how.
  void expect_kept(const std::shared_ptr<Cell>& cell, const Inputs& inputs) {
    const torch::NoGradGuard no_grad;
    for (const auto& item : cell->named_parameters()) {
      if (item.key().starts_with("start.")) item.value().normal_(0, 0.1, generator_);
    }
    Equilibrium layer(cell, kStartPlan);
    layer->eval();
    const auto eq = layer->forward(inputs);
    const auto predicted = cell->initial_state(inputs);
    for (const auto& item : cell->named_parameters()) {
      if (item.key().starts_with("start.")) item.value().add_(1);
    }
    const auto start = eq.start();
    ASSERT_EQ(start.size(), predicted.size());
    for (size_t i = 0; i < start.size(); ++i) EXPECT_TRUE(start[i].equal(predicted[i])) << i;
  }

  /// A start that is trained on one batch leaves the solver less to do.
  static void expect_shorter_solves(const std::shared_ptr<Cell>& cell, const Inputs& inputs) {
    Equilibrium layer(cell, kStartPlan);
    layer->eval();
    const auto solve = [&] {
      const torch::NoGradGuard no_grad;
      return layer->forward(inputs);
    };
    const auto before = solve();
    std::vector<torch::Tensor> trained;
    for (const auto& item : cell->named_parameters()) {
      if (item.key().starts_with("start.")) trained.push_back(item.value());
    }
    torch::optim::Adam optimiser(trained, 0.02);
    for (int i = 0; i < 120; ++i) {
      optimiser.zero_grad();
      start_distance(layer->forward(inputs)).mean().backward();
      optimiser.step();
    }
    const auto after = solve();
    EXPECT_LT(start_distance(after).mean().item<double>(), 0.5);
    const auto first_residual = [](const Equilibrated& eq) {
      return eq.report.trace.front().mean_relative;
    };
    EXPECT_LT(first_residual(after), first_residual(before));
  }
};

TEST_F(PredictedStart, OfAnMdeqIsZeroAtFirstAndLiesAsTheUsualOne) {
  for (const size_t scales : {1U, 3U}) {
    const auto x = injection();
    auto cell = mdeq(scales);
    const auto predicted = cell->initial_state({x});
    expect_zeros(predicted);
    const auto usual = MdeqCell(test::small_mdeq(scales), generator_)->initial_state({x});
    ASSERT_EQ(predicted.size(), usual.size());
    for (size_t i = 0; i < usual.size(); ++i) {
      EXPECT_EQ(predicted[i].sizes(), usual[i].sizes());
      EXPECT_TRUE(predicted[i].is_contiguous(torch::MemoryFormat::ChannelsLast));
      EXPECT_EQ(predicted[i].scalar_type(), usual[i].scalar_type());
    }
  }
}

TEST_F(PredictedStart, OfAnMdeqIsItsFormula) {
  auto cell = mdeq(3);
  const torch::NoGradGuard no_grad;
  auto parameters = cell->named_parameters();
  for (auto& item : parameters) {
    if (item.key().starts_with("start.")) item.value().normal_(0, 1, generator_);
  }
  const auto x = injection();
  const auto start = cell->initial_state({x});
  for (size_t i = 0; i < 3; ++i) {
    const auto p = [&](const char* name) {
      return parameters["start." + std::to_string(i) + "." + name];
    };
    const auto side = int64_t{8} >> i;
    const auto pooled = torch::adaptive_avg_pool2d(x, {side, side});
    const auto hidden = torch::group_norm(torch::conv2d(pooled, p("0.weight"), {}, 1, 1), 2,
                                          p("1.weight"), p("1.bias"))
                            .relu();
    const auto expected = torch::conv2d(hidden, p("3.weight"), p("3.bias"));
    EXPECT_LT(test::relative_difference(start[i], expected), 1e-12) << "scale " << i;
  }
}

TEST_F(PredictedStart, OfAnMdeqLearnsByItsOwnLossAlone) {
  auto cell = mdeq(2);
  Equilibrium layer(cell, kStartPlan);
  const auto eq = layer->forward(injection());
  EXPECT_EQ(reached(*cell, start_distance(eq).sum()), names_of_starts(*cell));
  for (const auto& name : reached(*cell, eq.z().sum())) EXPECT_FALSE(name.starts_with("start."));
}

TEST_F(PredictedStart, OfAnMdeqShortensSolves) {
  expect_shorter_solves(mdeq(2).ptr(), {injection()});
}

TEST_F(PredictedStart, HasParametersUnderNamesOfItsOwn) {
  const auto count = [](const torch::nn::Module& module, const std::string& prefix) {
    int64_t all = 0, own = 0;
    for (const auto& item : module.named_parameters()) {
      all += item.value().numel();
      if (item.key().starts_with(prefix)) own += item.value().numel();
    }
    return std::pair(all, own);
  };
  // Two scales of 4 and 6 channels: 3×3 without bias, a norm's two numbers, 1×1 with bias.
  const auto [all, own] = count(*MdeqClassifier(mdeq_options(2)), "fullstage.start.");
  EXPECT_EQ(own, (9 * 4 * 4 + 2 * 4 + 4 * 4 + 4) + (9 * 4 * 6 + 2 * 6 + 6 * 6 + 6));
  EXPECT_EQ(all - own, count(*MdeqClassifier(test::small_mdeq(2)), "fullstage.start.").first);
  auto options = test::small_transformer();
  const auto usual = count(*DeqTransformer(options), "func.start.").first;
  options.predicted_start = true;
  const auto [with, start] = count(*DeqTransformer(options), "func.start.");
  EXPECT_EQ(start, (30 + 1) * 12 + (12 + 1) * 12);
  EXPECT_EQ(with - start, usual);
}

TEST_F(PredictedStart, OfADeqTransformerIsItsFormula) {
  auto cell = transformer();
  const auto inputs = text_inputs();
  expect_zeros(cell->initial_state(inputs));
  auto parameters = cell->named_parameters();
  const torch::NoGradGuard no_grad;
  for (auto& item : parameters) {
    if (item.key().starts_with("start.")) item.value().normal_(0, 1, generator_);
  }
  const auto hidden =
      torch::linear(torch::layer_norm(inputs[0], 30), parameters["start.inner.weight"],
                    parameters["start.inner.bias"])
          .relu();
  const auto expected =
      torch::linear(hidden, parameters["start.outer.weight"], parameters["start.outer.bias"]);
  EXPECT_LT(test::relative_difference(cell->initial_state(inputs)[0], expected), 1e-12);
}

TEST_F(PredictedStart, OfADeqTransformerLearnsByItsOwnLossAlone) {
  auto cell = transformer();
  Equilibrium layer(cell, kStartPlan);
  const auto eq = layer->forward(text_inputs());
  EXPECT_EQ(reached(*cell, start_distance(eq).sum()), names_of_starts(*cell));
  for (const auto& name : reached(*cell, eq.z().sum())) EXPECT_FALSE(name.starts_with("start."));
}

TEST_F(PredictedStart, OfADeqTransformerShortensSolves) {
  expect_shorter_solves(transformer().ptr(), text_inputs());
}

TEST_F(PredictedStart, IsInTheStatesTypeUnderAutocast) {
  MdeqClassifier images(mdeq_options(3), generator_);
  auto options = test::small_transformer();
  options.predicted_start = true;
  DeqTransformer words(options, generator_);
  const PrecisionScope scope(Precision::BFloat16, torch::kCPU);
  const auto numbers = torch::randn({4, 3, 8, 8}, generator_);
  const auto of_images = images->forward(numbers, EquilibriumOptions{}).equilibrium;
  const auto tokens = torch::randint(19, {2, 6}, generator_, torch::kInt64);
  const auto of_words = words->read(tokens, {}, EquilibriumOptions{}).equilibrium;
  for (const auto& eq : {of_images, of_words}) {
    for (const auto& part : eq.start()) {
      EXPECT_EQ(part.scalar_type(), torch::kFloat32);
      EXPECT_TRUE(part.requires_grad());
    }
  }
}

TEST_F(PredictedStart, IsKeptByAPassWithoutGradients) {
  expect_kept(mdeq(2).ptr(), {injection()});
  expect_kept(transformer().ptr(), text_inputs());
  EXPECT_FALSE(MdeqCell(test::small_mdeq(2), generator_)->start_may_change());
  EXPECT_FALSE(TransformerCell(test::small_transformer(), generator_)->start_may_change());
}

}  // namespace
}  // namespace deq::models

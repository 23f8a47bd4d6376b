#include "lab/tasks/random_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "config/source_folder.h"
#include "deq/lab/base/errors.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

const std::vector<std::string> kSmallText{
    "model.layers=2",  "model.d_model=12",   "model.d_embed=12", "model.heads=2",
    "model.d_head=6",  "model.d_inner=16",   "model.div_val=1",  "data.segment=4",
    "data.memory=10",  "train.batch_size=3", "model.dropout=0",  "data.max_words=50",
    "model.cutoffs=[]"};

std::unique_ptr<RandomStep> small_text(const std::vector<std::string>& more = {}) {
  auto overrides = kSmallText;
  overrides.insert(overrides.end(), more.begin(), more.end());
  return make_random_step(kSource / "configs/books/transformer-xl.toml", overrides,
                          {.precision = Precision::Float64});
}

double loss_of(RandomStep& step) {
  const torch::NoGradGuard no_grad;
  step.model().eval();
  return step.forward(EquilibriumOptions{}).loss.item<double>();
}

TEST(RandomStep, HasTheShapesOfTheConfiguration) {
  const auto text = small_text();
  EXPECT_EQ(text->shapes(), (std::vector<std::pair<std::string, int64_t>>{
                                {"batch_size", 3}, {"segment", 4}, {"memory", 10}, {"words", 50}}));
  const auto images =
      make_random_step(kSource / "configs/gpu/cifar10-resnet18.toml", {}, {.batch_size = 2});
  EXPECT_EQ(images->shapes(), (std::vector<std::pair<std::string, int64_t>>{
                                  {"batch_size", 2}, {"image_size", 32}, {"classes", 10}}));
}

TEST(RandomStep, EveryPassSeesTheSameNumbersAndReachesAllWeights) {
  const auto images = make_random_step(kSource / "configs/gpu/cifar10-inception-v2.toml",
                                       {"data.image_size=8"}, {.batch_size = 2});
  const auto text = small_text();
  for (auto* step : {images.get(), text.get()}) {
    const double loss = loss_of(*step);
    EXPECT_EQ(loss_of(*step), loss);
    step->model().train();
    const auto pass = step->forward(EquilibriumOptions{});
    EXPECT_TRUE(pass.equilibria.empty());
    pass.loss.backward();
    for (const auto& item : step->model().named_parameters()) {
      EXPECT_GT(item.value().grad().norm().item<double>(), 0) << item.key();
    }
  }
}

// A network that knows nothing pays log n for each of n words or classes.
TEST(RandomStep, AnUntrainedNetworkGuesses) {
  EXPECT_NEAR(loss_of(*small_text({"model.init_std=0"})), std::log(50), 1e-9);
}

TEST(RandomStep, WhatIsRememberedCounts) {
  const auto with = small_text({"model.init_std=0.2"});
  const auto without = small_text({"model.init_std=0.2", "data.memory=0"});
  EXPECT_GT(std::abs(loss_of(*with) - loss_of(*without)), 1e-6);
}

TEST(RandomStep, WordsAreLogUniform) {
  torch::manual_seed(0);
  constexpr int64_t kWords = 10'000, kCount = 40'000;
  const auto words = random_words({kCount}, kWords, torch::kCPU);
  EXPECT_GE(words.min().item<int64_t>(), 0);
  EXPECT_LT(words.max().item<int64_t>(), kWords);
  for (const int64_t first : {1, 10, 100, 1000}) {  // the first n − 1: log n of log kWords
    const auto share = words.lt(first).to(torch::kFloat64).mean().item<double>();
    EXPECT_NEAR(share, std::log(first + 1) / std::log(kWords), 0.02) << first;
  }
}

TEST(RandomStep, OtherExperimentsAreRefused) {
  const auto path = kSource / "configs/paper/synthetic.toml";
  EXPECT_EQ(test::message_of<UsageError>([&] { make_random_step(path, {}, {}); }),
            path.string() +
                " describes the experiment \"synthetic\", must be \"vision\" or \"language\"");
}

}  // namespace
}  // namespace deq::lab

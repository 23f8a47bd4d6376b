#include "deq/models/transformer/transformer_xl.h"

#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::relative_difference;

TransformerXlOptions small(int64_t layers, bool pre_ln = false) {
  TransformerXlOptions options;
  options.vocabulary = 19;
  options.cutoffs = {6, 11};
  options.layers = layers;
  options.d_model = 12;
  options.d_embed = 10;
  options.heads = 2;
  options.d_head = 5;
  options.d_inner = 9;
  options.pre_ln = pre_ln;
  options.tie_projections = {false, true, true};
  options.dropout = 0;
  options.init_std = 0.3;
  return options;
}

class TransformerXlTest : public test::Seeded {
 protected:
  TransformerXL make(const TransformerXlOptions& options) {
    TransformerXL model(options, generator_);
    model->to(torch::kFloat64);
    return model;
  }

  torch::Tensor tokens(int64_t batch, int64_t length) {
    return torch::randint(19, {batch, length}, generator_, torch::kInt64);
  }
};

TEST_F(TransformerXlTest, ReadsATextInPartsAsAtOnce) {
  for (const auto& options : {small(1), small(3), small(3, /*pre_ln=*/true)}) {
    auto model = make(options);
    const auto text = tokens(2, 9);
    const auto whole = model->read(text, {.capacity = 20});
    TransformerXlMemory memory{.capacity = 20};
    std::vector<torch::Tensor> parts;
    for (const auto& part : text.split_with_sizes({4, 1, 4}, 1)) {
      auto reading = model->read(part, memory);
      parts.push_back(reading.hidden);
      memory = reading.memory;
    }
    EXPECT_LT(relative_difference(torch::cat(parts, 1), whole.hidden), 1e-13);
    for (size_t i = 0; i < memory.layers.size(); ++i) {
      EXPECT_LT(relative_difference(memory.layers[i], whole.memory.layers[i]), 1e-13);
      EXPECT_FALSE(memory.layers[i].requires_grad());
    }
  }
}

TEST_F(TransformerXlTest, ALaterWordChangesNoEarlierCost) {
  auto model = make(small(2));
  auto text = tokens(2, 6);
  const auto targets = tokens(2, 6);
  const auto before = model->forward(text, targets, {}).nll;
  text.select(1, 4).add_(1).remainder_(19);
  const auto after = model->forward(text, targets, {}).nll;
  EXPECT_LT(relative_difference(after.slice(1, 0, 4), before.slice(1, 0, 4)), 1e-14);
  EXPECT_GT(relative_difference(after.select(1, 5), before.select(1, 5)), 1e-6);
}

TEST_F(TransformerXlTest, SeesNoFartherThanItsHorizon) {
  auto options = small(1);
  options.horizon = 3;
  auto model = make(options);
  auto text = tokens(1, 6);
  const auto before = model->read(text, {}).hidden;
  text.select(1, 1).add_(1).remainder_(19);
  const auto after = model->read(text, {}).hidden;
  EXPECT_LT(relative_difference(after.select(1, 4), before.select(1, 4)), 1e-14);
  EXPECT_GT(relative_difference(after.select(1, 3), before.select(1, 3)), 1e-6);
}

TEST_F(TransformerXlTest, ClampedDistancesAreAllTheSame) {
  // Of two words farther away than the clamp, it does not matter which comes first.
  auto options = small(1);
  options.clamp_distance = 2;
  auto model = make(options);
  const auto text = torch::tensor({{3, 8, 1, 5, 2}}, torch::kInt64);
  const auto swapped = torch::tensor({{8, 3, 1, 5, 2}}, torch::kInt64);
  const auto last = [&](const torch::Tensor& words) {
    return model->read(words, {}).hidden.select(1, 4);
  };
  EXPECT_LT(relative_difference(last(text), last(swapped)), 1e-13);
  model = make(small(1));
  EXPECT_GT(relative_difference(last(text), last(swapped)), 1e-6);
}

TEST_F(TransformerXlTest, DropsOutInTrainingOnly) {
  auto options = small(2);
  options.dropout = options.attention_dropout = 0.3;
  auto model = make(options);
  const auto text = tokens(2, 5);
  EXPECT_FALSE(model->read(text, {}).hidden.allclose(model->read(text, {}).hidden));
  model->eval();
  EXPECT_TRUE(model->read(text, {}).hidden.equal(model->read(text, {}).hidden));
}

TEST_F(TransformerXlTest, CostsAreTheProbabilitiesOfTargets) {
  auto model = make(small(2));
  const auto targets = tokens(2, 5);
  const auto [nll, reading] = model->forward(tokens(2, 5), targets, {});
  const auto log_p = model->log_probabilities(reading.hidden);
  EXPECT_LT(relative_difference(nll, -log_p.gather(2, targets.unsqueeze(2)).squeeze(2)), 1e-13);
}

TEST_F(TransformerXlTest, SaysWhatIsWrong) {
  EXPECT_THROW(TransformerXL(small(0)), Error);
  auto options = small(2);
  options.clamp_distance = -1;
  EXPECT_THROW(TransformerXL{options}, Error);
  auto model = make(small(2));
  const auto memory = model->read(tokens(3, 4), {.capacity = 4}).memory;
  EXPECT_THROW(model->read(tokens(2, 4), memory), Error);
  EXPECT_THROW(make(small(1))->read(tokens(3, 4), memory), Error);
  EXPECT_THROW(model->read(tokens(2, 4), {.capacity = -1}), Error);
}

}  // namespace
}  // namespace deq::models

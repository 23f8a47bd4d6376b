#include "deq/models/transformer/gpt2_footprint.h"

#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/models/transformer/gpt2.h"
#include "models/gpt2_small.h"

namespace deq::models {
namespace {

Gpt2Options by_hand() {
  Gpt2Options options;
  options.vocabulary = 10;
  options.layers = 3;
  options.d_model = options.d_embed = 8;
  options.heads = 2;
  options.d_inner = 32;
  options.positions = 4;
  return options;
}

TEST(Gpt2Footprint, OfActivationsIsThePublishedFormula) {
  // s b h = 4·2·8 = 64, and 5 a s / h = 5.
  const auto one = gpt2_activations(by_hand(), {.parts = 1, .batch = 2, .words = 4});
  EXPECT_EQ(one.everything, 3 * 64 * 39);
  EXPECT_EQ(one.no_scores, 3 * 64 * 34);
  EXPECT_EQ(one.inputs_only, 3 * 128 + 64 * 39);
  EXPECT_EQ(one.outside, 64 * 5 + 4 * 4 * 2 * 10);
  const auto two = gpt2_activations(by_hand(), {.parts = 2, .batch = 2, .words = 4});
  EXPECT_EQ(two.everything, 3 * 64 * 24.5);
  EXPECT_EQ(two.no_scores, 3 * 64 * 22);
  EXPECT_EQ(two.inputs_only, 3 * 128 + 64 * 24.5);
  EXPECT_EQ(two.outside, one.outside);
}

TEST(Gpt2Footprint, OfScoresInGpt3IsPublished) {
  // 34 bytes of a feature, and 80 for the scores.
  Gpt2Options options;
  options.layers = options.heads = 96;
  options.d_model = options.d_embed = 12'288;
  options.d_inner = 4 * options.d_model;
  options.positions = 2048;
  const auto activations = gpt2_activations(options, {.words = 2048});
  EXPECT_DOUBLE_EQ(activations.everything / activations.no_scores, (34.0 + 80) / 34);
}

TEST(Gpt2Footprint, OfStatesIsSixteenBytesForEachNumberOfTheModule) {
  const auto options = test::small_gpt2();
  const auto footprint = gpt2_footprint(options, {.words = 9});
  int64_t count = 0;
  const GPT2 model(options);
  for (const auto& parameter : model->parameters()) count += parameter.numel();
  EXPECT_EQ(footprint.parameters, count);
  EXPECT_EQ(footprint.weights, 2.0 * static_cast<double>(count));
  EXPECT_EQ(footprint.states(), 16.0 * static_cast<double>(count));
  // How many a part has is held against the module in gpt2_parts_test.cpp.
  EXPECT_EQ(gpt2_footprint(options, {.parts = 2, .words = 9}).parameters,
            parameter_count(options, 2));
}

TEST(Gpt2Footprint, OfWhatCannotBeIsRefused) {
  EXPECT_THROW(gpt2_footprint(by_hand(), {.parts = 3, .words = 4}), Error);
  EXPECT_THROW(gpt2_footprint(by_hand(), {.batch = 0, .words = 4}), Error);
  EXPECT_THROW(gpt2_footprint(by_hand(), {.words = 5}), Error);
}

}  // namespace
}  // namespace deq::models

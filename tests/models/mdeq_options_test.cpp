#include "deq/models/mdeq/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/models/mdeq/mdeq.h"

namespace deq::models {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Published {
  const char* name;
  int64_t parameters;
  int64_t state;  ///< numbers per sample, at the size of its images
  int64_t image;
};

void PrintTo(const Published& preset, std::ostream* out) {
  *out << preset.name;
}

class MdeqPreset : public ::testing::TestWithParam<Published> {};

TEST_P(MdeqPreset, HasTheAuthorsSizes) {
  const auto& [name, parameters, state, image] = GetParam();
  const auto options = mdeq_preset(name);
  MdeqClassifier model(options);
  int64_t count = 0;
  for (const auto& parameter : model->parameters()) count += parameter.numel();
  EXPECT_EQ(count, parameters);
  // Only the shape of the injection matters to the state's.
  const auto side = image >> options.downsample_times;
  const auto z0 =
      model->cell()->initial_state({torch::zeros({1, options.channels[0], side, side})});
  EXPECT_EQ(StateLayout::of(z0).dim(), state);
}

INSTANTIATE_TEST_SUITE_P(
    All, MdeqPreset,
    ::testing::Values(Published{"cifar-tiny", 158'890, 30'720, 32},
                      Published{"cifar-large", 11'097'438, 61'440, 32},
                      Published{"cifar-large-reg", 11'097'438, 61'440, 32},
                      Published{"imagenet-small", 16'808'936, 188'160, 224},
                      Published{"imagenet-small-reg", 18'613'496, 188'160, 224},
                      Published{"imagenet-large", 67'063'624, 470'400, 224},
                      Published{"imagenet-large-reg", 67'061'224, 470'400, 224},
                      Published{"imagenet-xl", 90'463'280, 517'440, 224}));

TEST(MdeqPresets, AreListedByName) {
  EXPECT_EQ(mdeq_preset_names().size(), 8U);
  for (const auto& name : mdeq_preset_names()) EXPECT_NO_THROW(validate(mdeq_preset(name))) << name;
  EXPECT_EQ(mdeq_preset("cifar-large-reg").dropout, 0.22);
  EXPECT_THAT([] { mdeq_preset("cifar"); },
              ThrowsMessage<Error>(HasSubstr("no preset is called cifar; there are cifar-tiny, ")));
}

TEST(MdeqOptions, AreValidated) {
  const auto message = [](const MdeqOptions& options) -> std::string {
    try {
      validate(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_EQ(message({.channels = {}}),
            "mdeq: channels has 0 entries, must have 1 to 16, one per scale");
  EXPECT_EQ(message({.channels = {24, 20}}),
            "mdeq: channels = 20, must be a multiple of groups = 8 and of half of it");
  EXPECT_EQ(message({.blocks = {1}}),
            "mdeq: blocks has 1 entries, must have one for each of the 2 scales");
  EXPECT_EQ(message({.blocks = {1, 0}}), "mdeq: blocks = 0, must be ≥ 1");
  EXPECT_EQ(message({.big_kernels = {0, 3}}), "mdeq: big_kernels = 3, must be ≤ 2");
  EXPECT_EQ(message({.expansion = 0}), "mdeq: expansion = 0, must be ≥ 1");
  EXPECT_EQ(message({.groups = 1}), "mdeq: groups = 1, must be ≥ 2");
  EXPECT_EQ(message({.dropout = 1}), "mdeq: dropout = 1, must be in [0, 1)");
  EXPECT_EQ(message({.downsample_times = -1}), "mdeq: downsample_times = -1, must be ≥ 0");
  EXPECT_EQ(message({.head_channels = {8}}),
            "mdeq: head_channels has 1 entries, must have one for each of the 2 scales");
  EXPECT_EQ(message({.classes = 0}), "mdeq: classes = 0, must be ≥ 1");
  EXPECT_THROW(MdeqClassifier(MdeqOptions{.groups = 5}), Error);
  EXPECT_THROW(MdeqCell(MdeqOptions{.image_channels = 0}), Error);
}

}  // namespace
}  // namespace deq::models

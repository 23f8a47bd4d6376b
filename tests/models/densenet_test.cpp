#include "deq/models/explicit/densenet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "models/explicit_fixture.h"
#include "models/explicit_properties.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;

constexpr DenseNetOptions kSmall{.layers = {2, 2, 2, 2}, .growth = 6};

class DenseNetTest : public test::Seeded {
 protected:
  torch::Tensor images() { return torch::randn({3, 3, 16, 16}, generator_, f64()); }
};

/// From the paper's description, without the code under test.
int64_t papers_count(const std::vector<int64_t>& layers, int64_t k, int64_t classes) {
  int64_t channels = 2 * k, count = 3 * channels * 49 + 2 * channels;
  for (size_t block = 0; block < layers.size(); ++block) {
    for (int64_t layer = 0; layer < layers[block]; ++layer, channels += k) {
      count += 2 * channels + channels * 4 * k + 2 * 4 * k + 4 * k * k * 9;
    }
    if (block + 1 == layers.size()) break;
    count += 2 * channels + channels * (channels / 2);
    channels /= 2;
  }
  return count + 2 * channels + channels * classes + classes;
}

TEST_F(DenseNetTest, HasThePublishedSizes) {
  const auto size = [](const DenseNetOptions& options) {
    return test::parameter_count(*DenseNet(options));
  };
  EXPECT_EQ(size(densenet121(Stem::ImageNet, 1000)), 7'978'856);
  EXPECT_EQ(size(densenet264(Stem::ImageNet, 1000)), papers_count({6, 12, 64, 48}, 32, 1000));
  EXPECT_EQ(size(densenet264(Stem::ImageNet, 1000, 48)), papers_count({6, 12, 64, 48}, 48, 1000));
}

TEST_F(DenseNetTest, StartsAsTorchvisionsDoes) {
  const DenseNet network(densenet121(), generator_);
  for (const auto& item : network->named_parameters()) {
    const auto& [name, value] = item.pair();
    if (value.dim() == 4) {
      const double expected = std::sqrt(2.0 / static_cast<double>(value.numel() / value.size(0)));
      const double allowed = 6 / std::sqrt(2.0 * static_cast<double>(value.numel()));
      EXPECT_NEAR(value.std().item<double>() / expected, 1, allowed) << name;
    } else if (name == "classifier.weight") {
      EXPECT_LE(value.abs().max().item<double>(), 1 / std::sqrt(1024.0));
      EXPECT_GT(value.abs().max().item<double>(), 0.9 / std::sqrt(1024.0));
    } else {
      EXPECT_TRUE((value == (name.ends_with("weight") ? 1 : 0)).all().item<bool>()) << name;
    }
  }
}

TEST_F(DenseNetTest, TheGeneratorDecidesTheStart) {
  const auto weights = [](uint64_t stream) {
    const DenseNet network(kSmall, test::generator(stream));
    return network->named_parameters()["features.denseblock2.denselayer1.conv2.weight"];
  };
  EXPECT_TRUE(weights(1).equal(weights(1)));
  EXPECT_FALSE(weights(1).equal(weights(2)));
}

TEST_F(DenseNetTest, GradientsMatchDifferences) {
  DenseNet network(kSmall, generator_);
  test::expect_gradients_match_differences(network, images(), generator_);
}

TEST_F(DenseNetTest, BatchNormFollowsTheMode) {
  DenseNet network(kSmall, generator_), fresh(kSmall, generator_);
  test::expect_batch_norm_follows_the_mode(network, images(), "features.norm0");
  test::expect_running_statistics(fresh, images(), "features.conv0", "features.norm0");
}

TEST_F(DenseNetTest, TakesImagesOfOtherSizes) {
  const torch::NoGradGuard no_grad;
  auto options = kSmall;
  options.stem = Stem::ImageNet;
  options.classes = 7;
  EXPECT_EQ(DenseNet(options)->forward(torch::randn({2, 3, 224, 160})).sizes(),
            (std::vector<int64_t>{2, 7}));
}

TEST_F(DenseNetTest, MisuseIsNamed) {
  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  EXPECT_THAT(
      [] {
        DenseNet(DenseNetOptions{.layers = {6, 12, 24, 0}});
      },
      ThrowsMessage<Error>(HasSubstr("layers = [6, 12, 24, 0], must all be ≥ 1")));
  EXPECT_THAT([] { DenseNet(DenseNetOptions{.growth = 0}); },
              ThrowsMessage<Error>(HasSubstr("growth = 0, must be ≥ 1")));
  EXPECT_THAT([] { DenseNet(densenet121(Stem::Cifar, -1)); },
              ThrowsMessage<Error>(HasSubstr("classes = -1, must be ≥ 1")));
  EXPECT_THAT(
      [] {
        DenseNet(kSmall)->forward(torch::zeros({3, 8, 8}));
      },
      ThrowsMessage<Error>(HasSubstr("images of shape [3, 8, 8], must be")));
}

}  // namespace
}  // namespace deq::models

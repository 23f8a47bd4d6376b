#include "deq/models/explicit/resnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "models/explicit_fixture.h"
#include "models/explicit_properties.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;

constexpr std::array<int64_t, 4> kShallow{1, 1, 1, 1};

class ResNetTest : public test::Seeded {
 protected:
  torch::Tensor images(int64_t batch = 3) {
    return torch::randn({batch, 3, 16, 16}, generator_, f64());
  }
  ResNet shallow(bool bottleneck = false) {
    return ResNet(ResNetOptions{.blocks = kShallow, .bottleneck = bottleneck}, generator_);
  }
};

TEST_F(ResNetTest, HasTorchvisionsSizes) {
  EXPECT_EQ(test::parameter_count(*ResNet(resnet18(Stem::ImageNet, 1000))), 11'689'512);
  EXPECT_EQ(test::parameter_count(*ResNet(resnet50(Stem::ImageNet, 1000))), 25'557'032);
  EXPECT_EQ(test::parameter_count(*ResNet(resnet101(Stem::ImageNet, 1000))), 44'549'160);
}

TEST_F(ResNetTest, StartsAsTorchvisionsDoes) {
  const ResNet network(resnet18(), generator_);
  const auto parameters = network->named_parameters();
  for (const auto& item : parameters) {
    const auto& [name, value] = item.pair();
    if (value.dim() == 4) {
      const double expected = std::sqrt(2.0 / static_cast<double>(value.numel() / value.size(1)));
      const double allowed = 6 / std::sqrt(2.0 * static_cast<double>(value.numel()));
      EXPECT_NEAR(value.std().item<double>() / expected, 1, allowed) << name;
      EXPECT_LT(std::abs(value.mean().item<double>()) / expected, 2 * allowed) << name;
    } else if (!name.starts_with("fc.")) {
      EXPECT_TRUE((value == (name.ends_with("weight") ? 1 : 0)).all().item<bool>()) << name;
    }
  }
  const double bound = 1 / std::sqrt(512.0);
  for (const char* name : {"fc.weight", "fc.bias"}) {
    EXPECT_LE(parameters[name].abs().max().item<double>(), bound) << name;
    EXPECT_GT(parameters[name].abs().max().item<double>(), 0.5 * bound) << name;
  }
}

TEST_F(ResNetTest, TheGeneratorDecidesTheStart) {
  const auto weights = [](uint64_t stream) {
    const ResNet network(ResNetOptions{.blocks = kShallow}, test::generator(stream));
    return torch::cat({network->named_parameters()["layer2.0.conv1.weight"].flatten(),
                       network->named_parameters()["fc.bias"]});
  };
  EXPECT_TRUE(weights(1).equal(weights(1)));
  EXPECT_FALSE(weights(1).equal(weights(2)));
}

TEST_F(ResNetTest, GradientsMatchDifferences) {
  for (const bool bottleneck : {false, true}) {
    auto network = shallow(bottleneck);
    test::expect_gradients_match_differences(network, images(), generator_);
  }
}

TEST_F(ResNetTest, BatchNormFollowsTheMode) {
  auto network = shallow();
  test::expect_batch_norm_follows_the_mode(network, images(), "bn1");
  auto fresh = shallow();
  test::expect_running_statistics(fresh, images(), "conv1", "bn1");
}

TEST_F(ResNetTest, TakesImagesOfOtherSizes) {
  const torch::NoGradGuard no_grad;
  ResNet network(ResNetOptions{.blocks = kShallow, .stem = Stem::ImageNet, .classes = 7});
  EXPECT_EQ(network(torch::randn({2, 3, 224, 160})).sizes(), (std::vector<int64_t>{2, 7}));
}

TEST_F(ResNetTest, MisuseIsNamed) {
  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  EXPECT_THAT(
      [] {
        ResNet(ResNetOptions{.blocks = {2, 0, 2, 2}});
      },
      ThrowsMessage<Error>(HasSubstr("blocks = [2, 0, 2, 2], must all be ≥ 1")));
  EXPECT_THAT([] { ResNet(resnet18(Stem::Cifar, 0)); },
              ThrowsMessage<Error>(HasSubstr("classes = 0, must be ≥ 1")));
  EXPECT_THAT(
      [this] {
        shallow()->forward(torch::zeros({2, 1, 8, 8}));
      },
      ThrowsMessage<Error>(HasSubstr("images of shape [2, 1, 8, 8], must be")));
}

}  // namespace
}  // namespace deq::models

// ResNet and DenseNet against torchvision's.

#include <gtest/gtest.h>

#include <map>

#include "deq/models/explicit/densenet.h"
#include "deq/models/explicit/resnet.h"
#include "models/explicit_fixture.h"

namespace deq::models {
namespace {

template <class Network, class Options>
double difference(const test::ExplicitFixture& fixture, const Options& options) {
  Network network(options);
  return test::difference_from(fixture, *network,
                               [&](const torch::Tensor& images) { return network(images); });
}

class ExplicitNetworks : public ::testing::TestWithParam<std::string> {};

TEST_P(ExplicitNetworks, HaveTorchvisionsNamesShapesAndLogits) {
  const auto fixture = test::explicit_fixture(GetParam());
  const auto slash = GetParam().find('/');
  const std::string name = GetParam().substr(0, slash);
  const auto stem = GetParam().substr(slash + 1) == "cifar" ? Stem::Cifar : Stem::ImageNet;
  const int64_t classes = fixture.logits.size(1);
  const std::map<std::string, ResNetOptions> resnets{{"resnet18", resnet18(stem, classes)},
                                                     {"resnet50", resnet50(stem, classes)},
                                                     {"resnet101", resnet101(stem, classes)}};
  const std::map<std::string, DenseNetOptions> densenets{
      {"densenet121", densenet121(stem, classes)}, {"densenet264", densenet264(stem, classes)}};
  const auto resnet = resnets.find(name);
  const double off = resnet != resnets.end() ? difference<ResNet>(fixture, resnet->second)
                                             : difference<DenseNet>(fixture, densenets.at(name));
  EXPECT_LT(off, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Fixture, ExplicitNetworks,
                         ::testing::ValuesIn(test::explicit_fixture_names()),
                         [](const auto& network) {
                           auto name = network.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace deq::models

#pragma once

#include <torch/nn/module.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace deq::test {

/// One network of tests/fixtures/explicit_nets.json, or of the folder DEQ_FIXTURES names.
struct ExplicitFixture {
  struct Entry {
    std::string name;
    std::vector<int64_t> shape;
  };
  std::vector<Entry> entries;  ///< the floating-point part of the state dict, in its order
  int64_t parameters = 0;
  torch::Tensor images, logits;
};

/// All of the file, by name such as "resnet18/cifar".
std::vector<std::string> explicit_fixture_names();
ExplicitFixture explicit_fixture(const std::string& name);

/// Checks the model's names, shapes and size, gives it the fixture's weights, and returns by how
/// much its logits differ: relative, in eval mode and float64.
double difference_from(const ExplicitFixture& fixture, torch::nn::Module& model,
                       const std::function<torch::Tensor(const torch::Tensor&)>& forward);

int64_t parameter_count(const torch::nn::Module& model);

}  // namespace deq::test

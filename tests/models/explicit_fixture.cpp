#include "models/explicit_fixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "support/fixtures.h"
#include "support/maps.h"

namespace deq::test {
namespace {

using nlohmann::ordered_json;

const ordered_json& networks() {
  static const ordered_json file = [] {
    std::ifstream stream(fixture("explicit_nets.json"));
    return ordered_json::parse(stream);
  }();
  return file.at("nets");
}

/// base + scale·sin(0.7310 i + 1.37 j) at flat index i.
torch::Tensor waves(const std::vector<int64_t>& shape, int64_t j, double base, double scale) {
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  auto phases = torch::arange(size, f64()).mul_(0.7310).add_(1.37 * static_cast<double>(j));
  return phases.sin_().mul_(scale).add_(base).view(shape);
}

torch::Tensor filled(const ExplicitFixture::Entry& entry, int64_t j) {
  const auto& [name, shape] = entry;
  if (shape.size() >= 2) {
    double fan_in = 1;
    for (size_t i = 1; i < shape.size(); ++i) fan_in *= static_cast<double>(shape[i]);
    return waves(shape, j, 0, std::sqrt(2 / fan_in));
  }
  if (name.ends_with("weight")) return waves(shape, j, 1, 0.2);
  if (name.ends_with("running_var")) return waves(shape, j, 1, 0.3);
  return waves(shape, j, 0, 0.1);
}

/// Parameters and buffers, except the counters of batches, which are whole numbers.
std::map<std::string, torch::Tensor> floating_state(const torch::nn::Module& model) {
  std::map<std::string, torch::Tensor> state;
  for (const auto& item : model.named_parameters()) state[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) {
    if (item.value().dim() > 0) state[item.key()] = item.value();
  }
  return state;
}

}  // namespace

std::vector<std::string> explicit_fixture_names() {
  std::vector<std::string> names;
  for (const auto& item : networks().items()) names.push_back(item.key());
  return names;
}

ExplicitFixture explicit_fixture(const std::string& name) {
  const auto& net = networks().at(name);
  ExplicitFixture fixture;
  for (const auto& item : net.at("names").items()) {
    fixture.entries.push_back({item.key(), item.value().get<std::vector<int64_t>>()});
  }
  fixture.parameters = net.at("params").get<int64_t>();
  fixture.images = waves(net.at("input").get<std::vector<int64_t>>(), 0, 0, 1);
  for (const auto& row : net.at("logits")) {
    const auto logits = torch::tensor(row.get<std::vector<double>>(), f64()).unsqueeze(0);
    fixture.logits = fixture.logits.defined() ? torch::cat({fixture.logits, logits}) : logits;
  }
  return fixture;
}

double difference_from(const ExplicitFixture& fixture, torch::nn::Module& model,
                       const std::function<torch::Tensor(const torch::Tensor&)>& forward) {
  const torch::NoGradGuard no_grad;
  model.to(torch::kFloat64);
  model.eval();
  auto state = floating_state(model);
  for (size_t j = 0; j < fixture.entries.size(); ++j) {
    const auto& entry = fixture.entries[j];
    const auto found = state.find(entry.name);
    if (found == state.end() || found->second.sizes() != entry.shape) {
      ADD_FAILURE() << entry.name << " is missing or has another shape";
      return INFINITY;
    }
    found->second.copy_(filled(entry, static_cast<int64_t>(j)));
  }
  EXPECT_EQ(state.size(), fixture.entries.size());
  EXPECT_EQ(parameter_count(model), fixture.parameters);
  return relative_difference(forward(fixture.images), fixture.logits);
}

int64_t parameter_count(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const auto& tensor : model.parameters()) count += tensor.numel();
  return count;
}

}  // namespace deq::test

#include "mdeq_fixture.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/require.h"
#include "support/differences.h"
#include "support/fixtures.h"

namespace deq::test {

bool counts_batches(const std::string& buffer) {
  return buffer.ends_with(".num_batches_tracked");
}

MdeqFixture::MdeqFixture(const std::string& file)
    : file_(lab::read_safetensors(test::fixture(file))) {}

models::MdeqOptions MdeqFixture::options() const {
  const auto config = nlohmann::json::parse(file_.metadata.at("config"));
  const auto& model = config.at("MODEL");
  const auto& stage = model.at("EXTRA").at("FULL_STAGE");
  return {.channels = stage.at("NUM_CHANNELS"),
          .blocks = stage.at("NUM_BLOCKS"),
          .big_kernels = stage.at("BIG_KERNELS"),
          .expansion = model.at("EXPANSION_FACTOR"),
          .groups = model.at("NUM_GROUPS"),
          .dropout = model.at("DROPOUT"),
          .weight_norm = model.at("WNORM"),
          .block_norm_affine = model.at("BLOCK_GN_AFFINE"),
          .fuse_norm_affine = model.at("FUSE_GN_AFFINE"),
          .post_norm_affine = model.at("POST_GN_AFFINE"),
          .downsample_times = model.at("DOWNSAMPLE_TIMES"),
          .head_channels = stage.at("HEAD_CHANNELS"),
          .final_channels = stage.at("FINAL_CHANSIZE"),
          .classes = model.at("NUM_CLASSES")};
}

models::MdeqClassifier MdeqFixture::model() const {
  models::MdeqClassifier model(options());
  model->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  const auto load = [this](const std::string& name, torch::Tensor& tensor) {
    require(has("param." + name), "the file has no {}", name);
    const auto& value = (*this)["param." + name];
    require(value.sizes() == tensor.sizes(), "{} has shape {}, not {}", name, tensor.sizes(),
            value.sizes());
    tensor.copy_(value);
  };
  for (auto& item : model->named_parameters()) load(item.key(), item.value());
  for (auto& item : model->named_buffers()) {
    if (!counts_batches(item.key())) load(item.key(), item.value());
  }
  return model;
}

State MdeqFixture::state(const std::string& prefix) const {
  State state;
  while (has(fmt::format("{}.{}", prefix, state.size()))) {
    state.push_back((*this)[fmt::format("{}.{}", prefix, state.size())]);
  }
  return state;
}

bool MdeqFixture::cancels(const std::string& parameter) const {
  const std::string_view bias = "0.bias";
  if (!parameter.ends_with(bias)) return false;
  return has("param." + parameter.substr(0, parameter.size() - bias.size()) + "1.running_mean");
}

std::vector<std::string> MdeqFixture::names(const std::string& prefix) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file_.tensors) {
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  }
  return names;
}

void expect_gradients(const torch::nn::Module& model, const MdeqFixture& fixture,
                      const std::string& prefix, double tolerance) {
  const auto names = fixture.names(prefix);
  double largest = 0;
  for (const auto& name : names) {
    largest = std::max(largest, largest_entry(fixture[prefix + name]));
  }
  std::set<std::string> expected(names.begin(), names.end());
  for (const auto& item : model.named_parameters()) {
    const auto& gradient = item.value().grad();
    if (!expected.contains(item.key())) {
      EXPECT_FALSE(gradient.defined() && largest_entry(gradient) > 0) << item.key();
      continue;
    }
    expected.erase(item.key());
    ASSERT_TRUE(gradient.defined()) << item.key();
    const auto value = fixture[prefix + item.key()].to(gradient.device());
    const double bound =
        fixture.cancels(item.key()) ? 1e-14 * largest : tolerance * largest_entry(value);
    EXPECT_LT(largest_entry(gradient - value), bound) << item.key();
  }
  EXPECT_TRUE(expected.empty()) << *expected.begin();
}

}  // namespace deq::test

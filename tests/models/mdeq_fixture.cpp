#include "mdeq_fixture.h"

#include <nlohmann/json.hpp>

#include "core/require.h"
#include "support/fixtures.h"

namespace deq::test {

bool counts_batches(const std::string& buffer) {
  return buffer.ends_with(".num_batches_tracked");
}

MdeqFixture::MdeqFixture() : file_(lab::read_safetensors(fixture("mdeq.safetensors"))) {}

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

std::vector<std::string> MdeqFixture::names(const std::string& prefix) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file_.tensors) {
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  }
  return names;
}

}  // namespace deq::test

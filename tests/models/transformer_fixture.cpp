#include "transformer_fixture.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/require.h"
#include "support/differences.h"
#include "support/fixtures.h"
#include "support/maps.h"

namespace deq::test {
namespace {

template <class Options>
void read_shared(const nlohmann::json& config, Options& options) {
  options.vocabulary = config.at("n_token");
  options.cutoffs = config.at("cutoffs").get<std::vector<int64_t>>();
  options.div_val = config.at("div_val");
  options.d_model = config.at("d_model");
  options.d_embed = config.value("d_embed", options.d_model);
  options.heads = config.at("n_head");
  options.d_head = config.at("d_head");
  options.d_inner = config.at("d_inner");
  options.pre_ln = config.value("pre_lnorm", false);
  options.tie_weights = config.value("tie_weights", true);
  options.dropout = config.at("dropout");
  options.attention_dropout = 0;
}

}  // namespace

TransformerFixture::TransformerFixture(const std::string& name)
    : file_(lab::read_safetensors(fixture(name + ".safetensors"))) {}

nlohmann::json TransformerFixture::config() const {
  return nlohmann::json::parse(file_.metadata.at("config"));
}

torch::Tensor TransformerFixture::batch_first(const std::string& name) const {
  return (*this)[name].transpose(0, 1).contiguous();
}

torch::Tensor TransformerFixture::state(const std::string& name) const {
  return (*this)[name].transpose(1, 2).contiguous();
}

void TransformerFixture::expect_costs(const torch::Tensor& nll, const std::vector<int64_t>& cutoffs,
                                      double tolerance) const {
  const auto& listed = (*this)["train.nll"];
  const auto by_position = nll.t().flatten();
  const auto clusters =
      torch::bucketize((*this)["in.target"].flatten(), torch::tensor(cutoffs), false, true);
  const auto by_cluster = by_position.index_select(0, clusters.argsort(/*stable=*/true));
  EXPECT_LT(std::min(relative_difference(by_position, listed.flatten()),
                     relative_difference(by_cluster, listed.flatten())),
            tolerance);
}

std::vector<std::string> TransformerFixture::names(const std::string& prefix) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file_.tensors) {
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  }
  return names;
}

models::TransformerOptions TransformerFixture::options() const {
  models::TransformerOptions options;
  read_shared(config(), options);
  options.weight_norm = config().at("weight_norm");
  options.tie_projections = config().at("tie_projs").get<std::vector<bool>>();
  return options;
}

models::TransformerXlOptions TransformerFixture::xl_options() const {
  models::TransformerXlOptions options;
  read_shared(config(), options);
  options.layers = config().at("n_layer");
  // Not in the metadata, but a projection that is tied has no gradient of its own.
  options.tie_projections.clear();
  for (size_t i = 0; has(fmt::format("param.crit.out_projs.{}", i)); ++i) {
    options.tie_projections.push_back(!has(fmt::format("train.grad.crit.out_projs.{}", i)));
  }
  return options;
}

void TransformerFixture::load(torch::nn::Module& model,
                              const std::vector<models::TiedName>& tied) const {
  const torch::NoGradGuard no_grad;
  const auto copy = [this](const std::string& name, torch::Tensor& tensor) {
    require(has("param." + name), "the file has no {}", name);
    const auto& value = (*this)["param." + name];
    require(value.sizes() == tensor.sizes(), "{} has shape {}, not {}", name, tensor.sizes(),
            value.sizes());
    tensor.copy_(value);
  };
  for (auto& item : model.named_parameters()) copy(item.key(), item.value());
  for (auto& item : model.named_buffers()) copy(item.key(), item.value());
  for (const auto& [name, owner] : tied) {
    require((*this)["param." + name].equal((*this)["param." + owner]),
            "the file's {} is not its {}", name, owner);
  }
}

models::DeqTransformer TransformerFixture::model() const {
  models::DeqTransformer model(options());
  model->to(torch::kFloat64);
  load(*model, model->tied());
  return model;
}

models::TransformerXL TransformerFixture::xl_model() const {
  models::TransformerXL model(xl_options());
  model->to(torch::kFloat64);
  load(*model, model->tied());
  return model;
}

void TransformerFixture::expect_names(const torch::nn::Module& model,
                                      const std::vector<models::TiedName>& tied) const {
  std::set<std::string> own;
  for (const auto& item : model.named_parameters()) own.insert(item.key());
  for (const auto& item : model.named_buffers()) own.insert(item.key());
  for (const auto& [name, owner] : tied) {
    EXPECT_TRUE(own.contains(owner)) << owner;
    EXPECT_TRUE(own.insert(name).second) << name;
  }
  const auto published = names("param.");
  EXPECT_EQ(own, std::set<std::string>(published.begin(), published.end()));
}

void TransformerFixture::expect_gradients(const torch::nn::Module& model,
                                          const std::vector<models::TiedName>& tied,
                                          const std::string& prefix, double tolerance) const {
  const std::map<std::string, std::string> owners(tied.begin(), tied.end());
  std::map<std::string, torch::Tensor> expected;
  double largest = 0;
  for (const auto& name : names(prefix)) {
    const auto owner = owners.contains(name) ? owners.at(name) : name;
    const auto& part = (*this)[prefix + name];
    auto& sum = expected[owner];
    sum = sum.defined() ? sum + part : part;
    largest = std::max(largest, largest_entry(part));
  }
  for (const auto& item : model.named_parameters()) {
    const auto& gradient = item.value().grad();
    if (!expected.contains(item.key())) {
      EXPECT_FALSE(gradient.defined() && largest_entry(gradient) > 0) << item.key();
      continue;
    }
    const auto value = expected.extract(item.key()).mapped();
    ASSERT_TRUE(gradient.defined()) << item.key();
    const double error =
        largest_entry(gradient - value) / std::max(largest_entry(value), 1e-6 * largest);
    EXPECT_LT(error, tolerance) << item.key();
  }
  EXPECT_TRUE(expected.empty()) << expected.begin()->first;
}

}  // namespace deq::test

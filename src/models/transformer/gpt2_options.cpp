#include "deq/models/transformer/gpt2_options.h"

#include <utility>

#include "core/require.h"
#include "models/transformer/checks.h"
#include "models/transformer/parameters.h"

namespace deq::models {
namespace {

const std::vector<std::pair<std::string, Gpt2Options>>& gpt2_sizes() {
  const auto sized = [](int64_t layers, int64_t width, int64_t heads) {
    Gpt2Options options;
    options.layers = layers;
    options.d_model = options.d_embed = width;
    options.heads = heads;
    options.d_inner = 4 * width;
    return options;
  };
  static const std::vector<std::pair<std::string, Gpt2Options>> kSizes{
      {"355m", sized(24, 1024, 16)}, {"2.5b", sized(54, 1920, 20)}, {"8.3b", sized(72, 3072, 24)}};
  return kSizes;
}

/// Of embedding and softmax together.
int64_t vocabulary_parameters(const Gpt2Options& options) {
  const auto words = adaptive_vocabulary(options);
  const auto clusters = words.clusters();
  const auto projection = [&words](int64_t cluster) {
    return words.d_model * words.width(cluster);
  };
  int64_t tables = 0, count = words.words;  // and as many biases
  for (int64_t i = 0; i < clusters; ++i) {
    tables += words.size(i) * words.width(i);
    if (!words.projected()) continue;
    if (i == 0 || !words.one_table()) count += projection(i);
    const bool tied =
        !options.tie_projections.empty() && options.tie_projections[static_cast<size_t>(i)];
    if (!tied) count += projection(i);
  }
  count += (options.tie_weights ? 1 : 2) * tables;
  return count + (clusters - 1) * (words.d_embed + 1);
}

}  // namespace

void validate(const Gpt2Options& options) {
  check_transformer("gpt2", options);
  require(options.layers >= 1, "gpt2: layers = {}, must be ≥ 1", options.layers);
  require(options.d_model % options.heads == 0,
          "gpt2: d_model = {}, must be a multiple of heads = {}", options.d_model, options.heads);
  require(options.positions >= 1, "gpt2: positions = {}, must be ≥ 1", options.positions);
  validate(adaptive_vocabulary(options));
}

void validate(const Gpt2Options& options, int64_t parts) {
  validate(options);
  require(parts >= 1, "gpt2: {} processes for a layer, must be ≥ 1", parts);
  for (const auto& [field, value] :
       {std::pair{"heads", options.heads}, std::pair{"d_inner", options.d_inner}}) {
    require(value % parts == 0,
            "gpt2: {} = {}, must be a multiple of the {} processes that share a layer", field,
            value, parts);
  }
}

Gpt2Options gpt2_preset(std::string_view name) {
  std::string known;
  for (const auto& [preset_name, options] : gpt2_sizes()) {
    if (preset_name == name) return options;
    known += (known.empty() ? "" : ", ") + preset_name;
  }
  throw Error(fmt::format("gpt2: no preset is called {}; there are {}", name, known));
}

std::vector<std::string> gpt2_preset_names() {
  std::vector<std::string> names;
  for (const auto& preset : gpt2_sizes()) names.push_back(preset.first);
  return names;
}

int64_t parameter_count(const Gpt2Options& options, int64_t parts) {
  validate(options, parts);
  const auto d = options.d_model, inner = options.d_inner;
  const auto shared = 4 * d + 2 * d;  // two layer norms, and the biases of what the parts add
  const auto split = 3 * d * (d + 1) + d * d + inner * (d + 1) + inner * d;
  return vocabulary_parameters(options) + options.positions * d +
         options.layers * (shared + split / parts) + 2 * d;
}

}  // namespace deq::models

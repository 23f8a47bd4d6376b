#include "models/transformer_parameters.h"

namespace deq {

torch::Tensor parameter_at(torch::nn::Module& root, const std::string& path,
                           const torch::Tensor& initial) {
  const auto dot = path.find('.');
  if (dot == std::string::npos) return root.register_parameter(path, initial);
  const auto name = path.substr(0, dot);
  const auto children = root.named_children();
  const auto* known = children.find(name);
  const auto child = known != nullptr
                         ? *known
                         : root.register_module(name, std::make_shared<torch::nn::Module>(name));
  return parameter_at(*child, path.substr(dot + 1), initial);
}

std::string projection_name(const std::string& list, int64_t cluster,
                            const AdaptiveVocabulary& vocabulary) {
  return c10::str(list, ".", cluster, vocabulary.projections_are_layers ? ".weight" : "");
}

torch::Tensor normal_numbers(c10::IntArrayRef shape, double spread,
                             const std::optional<at::Generator>& generator) {
  return torch::empty(shape).normal_(0, spread, generator);
}

double layer_spread(const TransformerOptions& options) {
  return options.weight_norm && options.default_init_when_normalised ? -1 : options.init_std;
}

}  // namespace deq

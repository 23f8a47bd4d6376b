#include "models/module_tree.h"

#include <memory>

namespace deq::models {

PathEnd end_of_path(torch::nn::Module& root, const std::string& path) {
  const auto dot = path.find('.');
  if (dot == std::string::npos) return {.parent = &root, .name = path};
  const auto name = path.substr(0, dot);
  const auto children = root.named_children();
  const auto* known = children.find(name);
  const auto child = known != nullptr
                         ? *known
                         : root.register_module(name, std::make_shared<torch::nn::Module>(name));
  return end_of_path(*child, path.substr(dot + 1));
}

torch::Tensor register_parameter_at(torch::nn::Module& root, const std::string& path,
                                    const torch::Tensor& value) {
  const auto end = end_of_path(root, path);
  return end.parent->register_parameter(end.name, value);
}

}  // namespace deq::models

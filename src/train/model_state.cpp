#include "train/model_state.h"

#include "deq/core/error.h"

namespace deq {

std::map<std::string, torch::Tensor> model_tensors(const torch::nn::Module& model) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : model.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

void place_model(torch::nn::Module& model, torch::Device device, torch::ScalarType type) {
  for (auto& [name, tensor] : model_tensors(model)) {
    tensor.set_data(
        tensor.data().to(device, tensor.is_floating_point() ? type : tensor.scalar_type()));
  }
}

void restore_tensors(const std::map<std::string, torch::Tensor>& targets,
                     const std::map<std::string, torch::Tensor>& sources, const std::string& what) {
  for (const auto& [name, tensor] : sources) {
    require(targets.contains(name), what, " holds \"", name, "\", which this model does not have");
  }
  for (const auto& [name, target] : targets) {
    const auto found = sources.find(name);
    require(found != sources.end(), what, " lacks \"", name, "\"");
    require(found->second.sizes() == target.sizes(), what, "'s \"", name, "\" has shape ",
            found->second.sizes(), ", this model's ", target.sizes());
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, target] : targets) target.copy_(sources.at(name));
}

}  // namespace deq

#include "lab/runs/model_state.h"

#include "core/require.h"

namespace deq::lab {

std::map<std::string, torch::Tensor> model_tensors(const torch::nn::Module& model) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : model.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

void move_model(torch::nn::Module& model, torch::Device device, torch::ScalarType type) {
  for (auto& [name, tensor] : model_tensors(model)) {
    tensor.set_data(
        tensor.data().to(device, tensor.is_floating_point() ? type : tensor.scalar_type()));
  }
}

void restore_tensors(const std::map<std::string, torch::Tensor>& targets,
                     const std::map<std::string, torch::Tensor>& sources, const std::string& what) {
  for (const auto& [name, tensor] : sources) {
    require(targets.contains(name), "{} holds \"{}\", which this model does not have", what, name);
  }
  for (const auto& [name, target] : targets) {
    const auto found = sources.find(name);
    require(found != sources.end(), "{} lacks \"{}\"", what, name);
    require(found->second.sizes() == target.sizes(), "{}'s \"{}\" has shape {}, this model's {}",
            what, name, found->second.sizes(), target.sizes());
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, target] : targets) target.copy_(sources.at(name));
}

}  // namespace deq::lab

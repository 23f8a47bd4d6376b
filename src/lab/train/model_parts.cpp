#include "lab/train/model_parts.h"

#include <cmath>
#include <utility>
#include <vector>

#include "deq/models/transformer/gpt2_parts.h"

namespace deq::lab {

ModelParts::ModelParts(std::shared_ptr<models::TensorParallel> group) : group_(std::move(group)) {}

ModelParts::Tensors ModelParts::join(const Tensors& own) const {
  Tensors whole;
  for (const auto& [name, tensor] : own) {
    const auto joined = models::join_gpt2({{name, tensor}}, *group_);
    whole[name] = joined.at(name).to(torch::kCPU);
  }
  return whole;
}

ModelParts::Tensors ModelParts::cut(const Tensors& whole) const {
  return models::cut_gpt2(whole, models::part_of(group_.get()));
}

double ModelParts::gradient_norm(const Optimiser::NamedParameters& parameters) const {
  std::vector<torch::Tensor> own, shared;
  for (const auto& [name, parameter] : parameters) {
    (models::gpt2_in_parts(name, parameter) ? own : shared).push_back(parameter);
  }
  const auto squares = torch::full({1}, std::pow(lab::gradient_norm(own), 2),
                                   parameters.front().second.options().dtype(torch::kFloat64));
  group_->sum(squares);
  // What all have counts once.
  return std::sqrt(squares.item<double>() + std::pow(lab::gradient_norm(shared), 2));
}

}  // namespace deq::lab

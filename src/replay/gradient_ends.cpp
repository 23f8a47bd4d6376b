#include "replay/gradient_ends.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

namespace deq {
namespace {

namespace impl = torch::autograd::impl;

/// Gradients are read off before it would run.
struct GradientEnd final : torch::autograd::Node {
  explicit GradientEnd(const torch::Tensor& parameter) { add_input_metadata(parameter); }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& /*gradients*/) override {
    return {};
  }
};

/// As the parameter lies in memory, so that it can keep it.
torch::Tensor laid_out_as(const torch::Tensor& parameter, const torch::Tensor& gradient) {
  const bool stays = !gradient.defined() || gradient.strides() == parameter.strides() ||
                     !parameter.is_non_overlapping_and_dense();
  return stays ? gradient : torch::empty_like(parameter, gradient.options()).copy_(gradient);
}

}  // namespace

GradientEnds::Making::Making(GradientEnds& owner) : owner_(owner) {
  for (size_t i = 0; i < owner_.parameters_.size(); ++i) {
    owner_.accumulators_.emplace(impl::grad_accumulator(owner_.parameters_[i]), i);
  }
}

GradientEnds::Making::~Making() {
  owner_.accumulators_.clear();
}

void GradientEnds::redirect(const torch::Tensor& value) {
  // The ends are made here, on the stream that records.
  for (size_t i = ends_.size(); i < parameters_.size(); ++i) {
    ends_.push_back(std::make_shared<GradientEnd>(parameters_[i]));
  }
  if (!value.requires_grad() || value.is_leaf()) return;
  std::vector<Node*> open{value.grad_fn().get()};
  std::unordered_set<Node*> seen{open.front()};
  while (!open.empty()) {
    auto* const node = open.back();
    open.pop_back();
    for (auto& edge : node->next_edges()) {
      if (!edge.is_valid()) continue;
      if (const auto found = accumulators_.find(edge.function); found != accumulators_.end()) {
        edge.function = ends_[found->second];
      } else if (seen.insert(edge.function.get()).second) {
        open.push_back(edge.function.get());
      }
    }
  }
}

std::vector<torch::Tensor> GradientEnds::gradients(const torch::Tensor& value,
                                                   const std::vector<torch::Tensor>& inputs,
                                                   const torch::Tensor& along) const {
  torch::autograd::edge_list wanted;
  for (const auto& input : inputs) wanted.push_back(impl::gradient_edge(input));
  for (const auto& end : ends_) wanted.emplace_back(end, 0);
  if (wanted.empty() || !value.requires_grad()) return std::vector<torch::Tensor>(wanted.size());
  auto all = torch::autograd::Engine::get_default_engine().execute(
      {impl::gradient_edge(value)}, {along}, /*keep_graph=*/true, /*create_graph=*/false,
      /*accumulate_grad=*/false, wanted);
  const torch::NoGradGuard constant;
  for (size_t i = 0; i < ends_.size(); ++i) {
    auto& gradient = all[inputs.size() + i];
    gradient = laid_out_as(parameters_[i], gradient);
  }
  return all;
}

}  // namespace deq

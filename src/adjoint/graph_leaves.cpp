#include "adjoint/graph_leaves.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_set>

#include "core/hooks.h"
#include "core/require.h"

namespace deq {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::impl::gradient_edge;

/// Several results of one function are told apart by their number.
bool leads_to(const Edge& edge, const torch::Tensor& tensor) {
  return tensor.requires_grad() && edge == gradient_edge(tensor);
}

}  // namespace

void require_no_hooks(const std::vector<torch::Tensor>& leaves, const char* where) {
  for (const auto& leaf : leaves) {
    require(!has_hooks(leaf),
            "a tensor that f uses has or had a hook, which would run for parts of its gradient: "
            "there must be none {}",
            where);
  }
}

std::vector<torch::Tensor> graph_leaves(const torch::Tensor& value,
                                        const std::vector<torch::Tensor>& stops) {
  std::vector<torch::Tensor> leaves;
  std::unordered_set<const Node*> seen;
  std::vector<Edge> open;
  if (value.requires_grad()) open.push_back(gradient_edge(value));
  while (!open.empty()) {
    const auto edge = open.back();
    open.pop_back();
    const bool stopped = std::any_of(stops.begin(), stops.end(), [&](const torch::Tensor& stop) {
      return leads_to(edge, stop);
    });
    if (stopped || !seen.insert(edge.function.get()).second) continue;
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(edge.function.get())) {
      leaves.push_back(leaf->variable);
    }
    for (const auto& next : edge.function->next_edges()) {
      if (next.is_valid()) open.push_back(next);
    }
  }
  return leaves;
}

}  // namespace deq

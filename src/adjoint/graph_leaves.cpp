#include "adjoint/graph_leaves.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "core/hooks.h"
#include "core/require.h"

namespace deq {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::TraceableFunction;
using torch::autograd::impl::gradient_edge;
using torch::autograd::impl::set_gradient_edge;

/// Several results of one function are told apart by their number.
bool leads_to(const Edge& edge, const torch::Tensor& tensor) {
  return tensor.requires_grad() && edge == gradient_edge(tensor);
}

/// Shows `visit` the edges of a graph; where it says no, what lies behind one is left out. What
/// lies behind a function is seen once.
template <class Visit>
void walk(const torch::Tensor& value, const Visit& visit) {
  std::unordered_set<const Node*> seen;
  std::vector<Edge> open;
  if (value.requires_grad()) open.push_back(gradient_edge(value));
  while (!open.empty()) {
    const auto edge = open.back();
    open.pop_back();
    if (seen.contains(edge.function.get()) || !visit(edge)) continue;
    seen.insert(edge.function.get());
    for (const auto& next : edge.function->next_edges()) {
      if (next.is_valid()) open.push_back(next);
    }
  }
}

torch::Tensor stand_in(const Edge& edge) {
  const auto& form = edge.function->input_metadata(edge.input_nr);
  auto tensor = torch::zeros({1}, form.options())
                    .expand(C10_AS_INTARRAYREF_SLOW(form.shape_as_dim_vector()))
                    .detach();
  set_gradient_edge(tensor, edge);
  return tensor;
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

uint64_t graph_begins() {
  return at::sequence_number::peek();
}

bool leads_beyond(const torch::Tensor& value, const torch::Tensor& z) {
  bool found = false;
  const auto own = gradient_edge(z).function;
  walk(value, [&](const Edge& edge) {
    found = found || (edge.function != own &&
                      dynamic_cast<const TraceableFunction*>(edge.function.get()) == nullptr);
    return !found;
  });
  return found;
}

std::vector<torch::Tensor> graph_leaves(const torch::Tensor& value,
                                        const std::vector<torch::Tensor>& stops, uint64_t begin) {
  std::vector<torch::Tensor> leaves;
  std::set<std::pair<const Node*, uint32_t>> stood_in;
  walk(value, [&](const Edge& edge) {
    if (std::ranges::any_of(stops, [&](const auto& stop) { return leads_to(edge, stop); })) {
      return false;
    }
    const auto* node = edge.function.get();
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node)) {
      leaves.push_back(leaf->variable);
    } else if (node->thread_id() == at::RecordFunction::currentThreadId() &&
               node->sequence_nr() < begin) {
      if (stood_in.emplace(node, edge.input_nr).second) leaves.push_back(stand_in(edge));
      return false;
    }
    return true;
  });
  return leaves;
}

void require_same_leaves(const torch::Tensor& value, const std::vector<torch::Tensor>& arguments,
                         const std::vector<torch::Tensor>& leaves) {
  auto stops = arguments;
  stops.insert(stops.end(), leaves.begin(), leaves.end());
  require(graph_leaves(value, stops, /*begin=*/0).empty(),
          "f uses other parameters in backward than it did forward: this gradient evaluates it "
          "again there, so what it uses must stay in place until then");
}

}  // namespace deq

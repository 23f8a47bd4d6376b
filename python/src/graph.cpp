#include "graph.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <memory>
#include <unordered_set>
#include <utility>

namespace deq::python {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

/// Visits every node behind these tensors once; `visit` says whether to go on behind it.
void walk(const std::vector<torch::Tensor>& from,
          const std::function<bool(const std::shared_ptr<Node>&)>& visit) {
  std::vector<std::shared_ptr<Node>> open;
  std::unordered_set<Node*> seen;
  const auto reach = [&](const std::shared_ptr<Node>& node) {
    if (node && seen.insert(node.get()).second) open.push_back(node);
  };
  for (const auto& tensor : from) reach(tensor.grad_fn());
  while (!open.empty()) {
    const auto node = open.back();
    open.pop_back();
    if (!visit(node)) continue;
    for (const auto& edge : node->next_edges()) reach(edge.function);
  }
}

/// Where an evaluated pass, or a replayed one, takes its adjoint.
bool is_adjoint(const Node& node) {
  const auto name = node.name();
  return name.find("AttachAdjoint") != std::string::npos ||
         name.find("Replayed") != std::string::npos;
}

class RaiseOnFailure final : public torch::autograd::FunctionPostHook {
 public:
  explicit RaiseOnFailure(Equilibrated eq) : eq_(std::move(eq)) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    if (!has_failed(eq_.adjoint())) return outputs;
    const py::gil_scoped_acquire gil;
    const auto error = py::module_::import("deq._core").attr("ConvergenceError");
    PyErr_SetString(error.ptr(), ("the adjoint solve failed: " + eq_.adjoint().brief()).c_str());
    python_error raised;
    raised.persist();
    throw raised;
  }

 private:
  Equilibrated eq_;
};

}  // namespace

bool has_failed(const Report& report) {
  return report.status != Status::Converged && report.status != Status::UserStopped;
}

void raise_when_adjoint_fails(const Equilibrated& eq) {
  auto without_state = eq;  // which would hold the node that holds the hook
  without_state.state.clear();
  walk(eq.state, [&](const std::shared_ptr<Node>& node) {
    if (!is_adjoint(*node)) return true;
    node->add_post_hook(std::make_unique<RaiseOnFailure>(without_state));
    return false;
  });
}

std::vector<torch::Tensor> other_leaves(const Equilibrated& eq, const Inputs& inputs,
                                        const std::vector<torch::Tensor>& known) {
  std::unordered_set<Node*> ends;
  const auto end_at = [&](const torch::Tensor& tensor) {
    if (!tensor.requires_grad()) return;
    ends.insert(torch::autograd::impl::gradient_edge(tensor).function.get());
  };
  for (const auto& tensor : inputs) end_at(tensor);
  for (const auto& tensor : known) end_at(tensor);
  std::vector<torch::Tensor> found;
  walk(eq.state, [&](const std::shared_ptr<Node>& node) {
    if (ends.contains(node.get())) return false;
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get())) {
      found.push_back(leaf->variable);
    }
    return true;
  });
  return found;
}

}  // namespace deq::python

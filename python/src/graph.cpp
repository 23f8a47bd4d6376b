#include "graph.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <functional>
#include <memory>
#include <typeinfo>
#include <unordered_set>
#include <utility>

#include "cell.h"

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

/// Where an evaluated pass, a replayed or a reversible one takes its adjoint.
bool is_adjoint(const Node& node) {
  const auto name = node.name();
  return name.find("AttachAdjoint") != std::string::npos ||
         name.find("Replayed") != std::string::npos ||
         name.find("UndoneSteps") != std::string::npos;
}

/// Of a torch.autograd.Function in Python. A node's name is made at some cost; that of its type
/// lies ready.
bool is_pythons(const Node& node) {
  return std::strstr(typeid(node).name(), "PyNode") != nullptr;
}

/// Where the tensors that require a gradient end a walk.
std::unordered_set<Node*> ends_at(const std::vector<torch::Tensor>& tensors) {
  std::unordered_set<Node*> ends;
  for (const auto& tensor : tensors) {
    if (tensor.requires_grad()) {
      ends.insert(torch::autograd::impl::gradient_edge(tensor).function.get());
    }
  }
  return ends;
}

class RaiseOnFailure final : public torch::autograd::FunctionPostHook {
 public:
  explicit RaiseOnFailure(Equilibrated eq) : eq_(std::move(eq)) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    if (!has_failed(eq_.adjoint())) return outputs;
    const py::gil_scoped_acquire gil;
    const auto error = py::module_::import("deq._core").attr("ConvergenceError");
    PyErr_SetString(error.ptr(), ("the adjoint solve failed: " + eq_.adjoint().brief()).c_str());
    throw_set_error();
  }

 private:
  Equilibrated eq_;
};

class TellOfAdjoint final : public torch::autograd::FunctionPostHook {
 public:
  TellOfAdjoint(Equilibrated eq, Held function)
      : eq_(std::move(eq)), function_(std::move(function)) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    const py::gil_scoped_acquire gil;
    const auto report = py::cast(eq_.adjoint());
    const auto answer =
        py::reinterpret_steal<py::object>(PyObject_CallOneArg((*function_).ptr(), report.ptr()));
    if (!answer) throw_set_error();
    return outputs;
  }

 private:
  Equilibrated eq_;
  Held function_;
};

/// Has this hook called after the adjoint solve of a pass.
template <class Hook, class... Arguments>
void add_to_adjoint(const Equilibrated& eq, const Arguments&... arguments) {
  auto without_state = eq;  // which would hold the node that holds the hook
  without_state.state.clear();
  walk(eq.state, [&](const std::shared_ptr<Node>& node) {
    if (!is_adjoint(*node)) return true;
    node->add_post_hook(std::make_unique<Hook>(without_state, arguments...));
    return false;
  });
}

}  // namespace

void throw_set_error() {
  python_error raised;
  raised.persist();
  throw raised;
}

bool has_failed(const Report& report) {
  return report.status != Status::Converged && report.status != Status::UserStopped;
}

void raise_when_adjoint_fails(const Equilibrated& eq) {
  add_to_adjoint<RaiseOnFailure>(eq);
}

void tell_of_adjoint(const Equilibrated& eq, const py::object& function) {
  add_to_adjoint<TellOfAdjoint>(eq, Held(function));
}

std::vector<torch::Tensor> other_leaves(const Equilibrated& eq, const Inputs& inputs,
                                        const std::vector<torch::Tensor>& known) {
  auto ends = ends_at(inputs);
  ends.merge(ends_at(known));
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

bool has_node(const std::vector<torch::Tensor>& tensors, const Inputs& inputs,
              const std::string& name) {
  const auto ends = ends_at(inputs);
  bool found = false;
  walk(tensors, [&](const std::shared_ptr<Node>& node) {
    if (found || ends.contains(node.get())) return false;
    found = is_pythons(*node) && node->name().find(name) != std::string::npos;
    return true;
  });
  return found;
}

}  // namespace deq::python

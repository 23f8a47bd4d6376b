#pragma once

#include <string>
#include <vector>

#include "bindings.h"
#include "deq/deq.h"

namespace deq::python {

/// Throws the exception that Python has set, as torch carries it through backward().
[[noreturn]] void throw_set_error();

bool has_failed(const Report& report);

/// Lets backward() raise deq.ConvergenceError where the adjoint solve of this pass fails.
void raise_when_adjoint_fails(const Equilibrated& eq);

/// Calls `function` with the report of this pass's adjoint solve, in backward().
void tell_of_adjoint(const Equilibrated& eq, const py::object& function);

/// The leaves that get a gradient from the state, but are neither `known` nor reached through
/// `inputs` alone. Among them are the points at which functions were linearised.
std::vector<torch::Tensor> other_leaves(const Equilibrated& eq, const Inputs& inputs,
                                        const std::vector<torch::Tensor>& known);

/// Whether the graph from `inputs` to these tensors has a node of Python's with `name` in its name.
bool has_node(const std::vector<torch::Tensor>& tensors, const Inputs& inputs,
              const std::string& name);

}  // namespace deq::python

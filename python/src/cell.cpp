#include "cell.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/python_variable.h>

#include <sstream>

namespace deq::python {

Held::Held(py::object object) {
  if (object.is_none()) return;
  object_ = {new py::object(std::move(object)), [](py::object* held) {
               if (Py_IsInitialized() == 0) return (void)held->release();  // the end of the process
               const py::gil_scoped_acquire gil;
               delete held;
             }};
}

std::string kind_of(py::handle object) {
  return py::type::handle_of(object).attr("__name__").cast<std::string>();
}

torch::Tensor shown(const torch::Tensor& slab) {
  return slab.requires_grad() ? slab : slab.detach();
}

namespace {

/// A state as f sees it: one tensor as it is, several as a tuple.
py::object as_python(const State& state) {
  if (state.size() == 1) return py::cast(shown(state[0]));
  py::tuple parts(state.size());
  for (size_t i = 0; i < state.size(); ++i) parts[i] = py::cast(shown(state[i]));
  return parts;
}

std::string form_of(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// What a function of the user's returned, as tensors.
std::vector<torch::Tensor> tensors_of(const py::object& result, const char* function) {
  if (THPVariable_Check(result.ptr())) return {result.cast<torch::Tensor>()};
  std::vector<torch::Tensor> tensors;
  if (py::isinstance<py::tuple>(result) || py::isinstance<py::list>(result)) {
    for (const auto part : result) {
      if (part.is_none()) {
        tensors.emplace_back();
      } else if (THPVariable_Check(part.ptr())) {
        tensors.push_back(part.cast<torch::Tensor>());
      } else {
        throw py::type_error(fmt::format("{} returned a {} that holds a {}, must hold tensors",
                                         function, kind_of(result), kind_of(part)));
      }
    }
    return tensors;
  }
  throw py::type_error(fmt::format("{} returned a {}, must return a tensor or a tuple of tensors",
                                   function, kind_of(result)));
}

void require_like(const State& value, const State& z) {
  if (value.size() != z.size()) {
    throw Error(
        fmt::format("f returned {} tensors, but the state has {}: f must return a state like z",
                    value.size(), z.size()));
  }
  for (size_t i = 0; i < z.size(); ++i) {
    const auto part = z.size() == 1 ? std::string() : fmt::format(" as part {}", i);
    if (!value[i].defined()) {
      throw Error(fmt::format("f returned None{}, must return a tensor like z", part));
    }
    if (value[i].sizes() != z[i].sizes()) {
      throw Error(fmt::format(
          "f returned the shape {}{}, but z has the shape {}: f must return a state like "
          "z (where z has another shape than the first input, give z0 or initial_state)",
          form_of(value[i]), part, form_of(z[i])));
    }
    if (value[i].device() != z[i].device()) {
      throw Error(
          fmt::format("f returned a tensor on {}{}, but z is on {}: move the layer and its inputs "
                      "to one device",
                      value[i].device().str(), part, z[i].device().str()));
    }
    if (!value[i].is_floating_point()) {
      throw Error(fmt::format("f returned {}{}, must return floating-point numbers like z",
                              torch::toString(value[i].scalar_type()), part));
    }
    // Fewer bits, as under autocast, are f's business: the state keeps its own.
    const bool is_narrow =
        value[i].scalar_type() == torch::kBFloat16 || value[i].scalar_type() == torch::kHalf;
    if (value[i].scalar_type() != z[i].scalar_type() && !is_narrow) {
      throw Error(fmt::format(
          "f returned {}{}, but z is {}: f must return z's type, as "
          "result.to(z.dtype) has it",
          torch::toString(value[i].scalar_type()), part, torch::toString(z[i].scalar_type())));
    }
  }
}

/// The exception that Python has set. torch's own refusals, all of them RuntimeErrors, may mean
/// that f cannot be recorded; another one, such as Ctrl-C, says nothing about that.
[[noreturn]] void raise_set_error() {
  py::error_already_set error;
  if (error.matches(PyExc_RuntimeError)) throw error;
  throw Raised{error};
}

/// Calls a function of the user's. Ctrl-C stops a solve here at the latest.
py::object call(const py::object& function, const py::tuple& arguments) {
  if (PyErr_CheckSignals() != 0) raise_set_error();
  auto* const result = PyObject_Call(function.ptr(), arguments.ptr(), nullptr);
  if (result == nullptr) raise_set_error();
  return py::reinterpret_steal<py::object>(result);
}

py::tuple as_arguments(const std::vector<torch::Tensor>& tensors) {
  py::tuple arguments(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) arguments[i] = py::cast(tensors[i]);
  return arguments;
}

/// Holds tensors that are registered elsewhere.
struct Leaves : torch::nn::Module {
  Leaves(const std::vector<torch::Tensor>& parameters, const std::vector<torch::Tensor>& buffers) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      register_parameter(fmt::format("parameter_{}", i), parameters[i],
                         parameters[i].requires_grad());
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      register_buffer(fmt::format("buffer_{}", i), buffers[i]);
    }
  }
};

bool are_the_same(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.is_same(y); });
}

}  // namespace

PythonCell::PythonCell(const CellFunctions& functions)
    : step_(functions.step),
      prepare_(functions.prepare),
      initial_state_(functions.initial_state),
      replay_key_(functions.replay_key) {
  register_module("leaves", std::make_shared<Leaves>(parameters_known_, buffers_known_));
}

State PythonCell::initial_state(const Inputs& inputs) {
  if (!initial_state_) {
    if (inputs.empty()) {
      throw Error("without an input nothing says what z looks like: give z0 or initial_state");
    }
    return {torch::zeros_like(inputs[0]).detach()};
  }
  const py::gil_scoped_acquire gil;
  return tensors_of(call(*initial_state_, as_arguments(inputs)), "initial_state");
}

Context PythonCell::prepare(const Inputs& inputs) {
  if (!prepare_) return inputs;
  const py::gil_scoped_acquire gil;
  return tensors_of(call(*prepare_, as_arguments(inputs)), "prepare");
}

State PythonCell::step(const State& z, const Context& context) {
  const py::gil_scoped_acquire gil;
  if (!step_) throw Error("the layer of this equilibrium is gone");
  py::tuple arguments(1 + context.size());
  arguments[0] = as_python(z);
  for (size_t i = 0; i < context.size(); ++i) arguments[i + 1] = py::cast(context[i]);
  auto value = tensors_of(call(*step_, arguments), "f");
  require_like(value, z);
  return value;
}

std::optional<ReplayKey> PythonCell::replay_key() const {
  if (!replay_key_) return std::nullopt;
  const py::gil_scoped_acquire gil;
  return call(*replay_key_, py::tuple()).cast<std::optional<ReplayKey>>();
}

void PythonCell::set_leaves(const std::vector<torch::Tensor>& parameters,
                            const std::vector<torch::Tensor>& buffers) {
  if (are_the_same(parameters, parameters_known_) && are_the_same(buffers, buffers_known_)) return;
  parameters_known_ = parameters;
  buffers_known_ = buffers;
  replace_module("leaves", std::make_shared<Leaves>(parameters, buffers));
}

std::vector<PyObject*> PythonCell::objects() const {
  std::vector<PyObject*> all;
  for (const auto* held : {&step_, &prepare_, &initial_state_, &replay_key_}) {
    if (*held) all.push_back((**held).ptr());
  }
  return all;
}

void PythonCell::drop_objects() {
  step_ = prepare_ = initial_state_ = replay_key_ = Held();
}

}  // namespace deq::python

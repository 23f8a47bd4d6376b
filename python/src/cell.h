#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "deq/deq.h"

namespace deq::python {

/// A Python object that threads without the interpreter's lock may copy and drop.
class Held {
 public:
  Held() = default;
  explicit Held(py::object object);

  const py::object& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  std::shared_ptr<py::object> object_;
};

/// An exception of f's that is none of torch's. It is no std::exception, so that a recording in
/// which it is raised does not take it for a refusal: it comes out of the solve.
struct Raised {
  py::error_already_set error;
};

/// A solver's slab for Python's eyes. A tensor that Python has seen keeps a Python object, which
/// counts as a user for good; a solver reuses the slabs that nobody uses.
torch::Tensor shown(const torch::Tensor& slab);

/// The name of its type, as a message has it.
std::string kind_of(py::handle object);

/// What f is made of in Python. `step` is called with z and the context's tensors, the others with
/// the inputs. None where there is none: z then starts at zero like the first input, the context is
/// the inputs, and nothing is replayed.
struct CellFunctions {
  py::object step, prepare, initial_state, replay_key;
};

/// f in Python. It may be called on any thread, without the interpreter's lock.
class PythonCell final : public Cell {
 public:
  explicit PythonCell(const CellFunctions& functions);

  State initial_state(const Inputs& inputs) override;
  /// What a function of Python's does is not known.
  bool start_may_change() const override { return static_cast<bool>(initial_state_); }
  Context prepare(const Inputs& inputs) override;
  State step(const State& z, const Context& context) override;
  std::optional<ReplayKey> replay_key() const override;

  /// What a recording must know of f: the tensors that it reads, shared with Python's modules.
  void set_leaves(const std::vector<torch::Tensor>& parameters,
                  const std::vector<torch::Tensor>& buffers);

  /// The Python objects, for the collector of reference cycles.
  std::vector<PyObject*> objects() const;
  void drop_objects();

 private:
  Held step_, prepare_, initial_state_, replay_key_;
  std::vector<torch::Tensor> parameters_known_, buffers_known_;
};

}  // namespace deq::python

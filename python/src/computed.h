#pragma once

#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>

#include <string>
#include <vector>

namespace deq::python {

namespace py = pybind11;

/// Keeps what C++ warns of on this thread, which torch would print, for Python's `warnings`.
class KeptWarnings final : c10::WarningHandler {
 public:
  KeptWarnings() : instead_of_printing_(this) {}

  /// Throws where the user has asked for exceptions.
  void issue() const {
    for (const auto& text : texts_) {
      if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) != 0) throw py::error_already_set();
    }
  }

 private:
  void process(const c10::Warning& warning) override { texts_.push_back(warning.msg()); }

  std::vector<std::string> texts_;
  c10::WarningUtils::WarningHandlerGuard instead_of_printing_;
};

/// What `work` computes without the interpreter's lock.
template <class Work>
auto computed(const Work& work) {
  const KeptWarnings warnings;
  auto result = [&work] {
    const py::gil_scoped_release unlocked;
    return work();
  }();
  warnings.issue();
  return result;
}

}  // namespace deq::python

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include "bindings.h"
#include "deq/deq.h"

namespace deq::python {

void bind_errors(py::module_& module) {
  static const py::exception<Error> error(module, "Error", PyExc_RuntimeError);
  static const py::exception<ConvergenceError> convergence_error(module, "ConvergenceError", error);
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    if (!thrown) return;
    try {
      std::rethrow_exception(thrown);
    } catch (const ConvergenceError& failure) {
      py::set_error(convergence_error, failure.what());
    } catch (const Error& failure) {
      py::set_error(error, failure.what());
    } catch (const py::error_already_set&) {
      throw;  // an exception of Python's own
    } catch (const py::builtin_exception&) {
      throw;
    } catch (...) {
      torch::translate_exception_to_python(std::current_exception());
    }
  });
}

}  // namespace deq::python

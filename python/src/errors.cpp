#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include <chrono>
#include <optional>

#include "bindings.h"
#include "cell.h"
#include "deq/deq.h"
#include "graph.h"

namespace deq::python {
namespace {

/// Only Python's main thread sees its signals.
bool is_main_thread() {
  const auto main = py::module_::import("threading").attr("main_thread")();
  return main.attr("ident").cast<unsigned long>() == PyThread_get_thread_ident();
}

/// Lets Ctrl-C stop solves in which no Python runs. Looks only so often, as other threads may have
/// the interpreter's lock. It throws what torch carries through backward() as it is.
void look_for_signals() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPause(50);
  thread_local Clock::time_point next{};
  thread_local std::optional<bool> sees_signals;
  if (sees_signals == false) return;
  const auto now = Clock::now();
  if (now < next || Py_IsInitialized() == 0) return;
  next = now + kPause;
  const py::gil_scoped_acquire gil;
  if (!sees_signals) sees_signals = is_main_thread();
  if (!*sees_signals || PyErr_CheckSignals() == 0) return;
  throw_set_error();
}

}  // namespace

void bind_errors(py::module_& module) {
  set_interruption_check(look_for_signals);
  static const py::exception<Error> error(module, "Error", PyExc_RuntimeError);
  static const py::exception<ConvergenceError> convergence_error(module, "ConvergenceError", error);
  error.attr("__doc__") =
      "Something could not be done. The message is one sentence for the user. Numerical trouble is "
      "no error; a `Report` names it.";
  convergence_error.attr("__doc__") =
      "A solve failed where on_failure=\"raise\" was asked for: in the layer's call or in "
      "backward().";
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    if (!thrown) return;
    try {
      std::rethrow_exception(thrown);
    } catch (const ConvergenceError& failure) {
      py::set_error(convergence_error, failure.what());
    } catch (const Error& failure) {
      py::set_error(error, failure.what());
    } catch (Raised& raised) {
      raised.error.restore();
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

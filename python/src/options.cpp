#include "options.h"

namespace deq::python {

std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string quoted(py::handle object) {
  return py::repr(object).cast<std::string>();
}

std::optional<std::string> read(py::handle from, double& to) {
  if (!PyBool_Check(from.ptr())) {
    const double value = PyFloat_AsDouble(from.ptr());
    if (!PyErr_Occurred()) {
      to = value;
      return {};
    }
    PyErr_Clear();
  }
  return "a number";
}

std::optional<std::string> read(py::handle from, int64_t& to) {
  if (!PyBool_Check(from.ptr())) {
    const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(from.ptr()));
    const auto value = whole ? PyLong_AsLongLong(whole.ptr()) : 0;
    if (!PyErr_Occurred()) {
      to = value;
      return {};
    }
    PyErr_Clear();
  }
  return "a whole number";
}

std::optional<std::string> read(py::handle from, int& to) {
  int64_t value = 0;
  const auto expected = read(from, value);
  if (expected) return expected;
  if (value != static_cast<int>(value)) return "a smaller whole number";
  to = static_cast<int>(value);
  return {};
}

std::optional<std::string> read(py::handle from, bool& to) {
  if (!PyBool_Check(from.ptr())) return "True or False";
  to = from.cast<bool>();
  return {};
}

std::optional<std::string> read(py::handle from, std::optional<int64_t>& to) {
  if (from.is_none()) {
    to = std::nullopt;
    return {};
  }
  int64_t value = 0;
  if (read(from, value)) return "a whole number or None";
  to = value;
  return {};
}

std::optional<std::string> read(py::handle from, Replay& to) {
  if (!PyBool_Check(from.ptr())) return read_name(from, to, {"True", "False"});
  to = from.cast<bool>() ? Replay::Automatic : Replay::Off;
  return {};
}

namespace {

/// What every solver has: budget, tolerance, guards.
template <class Options>
void add_common(OptionsClass<Options>& options) {
  options
      .field(
          "max_evals", [](auto& o) -> auto& { return o.max_evals; },
          "The budget of evaluations of f, trial points and probes included.")
      .field(
          "atol", [](auto& o) -> auto& { return o.tol.atol; },
          "The absolute part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖.")
      .field(
          "rtol", [](auto& o) -> auto& { return o.tol.rtol; },
          "The relative part of the tolerance: converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖.")
      .field(
          "scope", [](auto& o) -> auto& { return o.tol.scope; },
          "Whether each sample converges by itself or the batch as one.")
      .field(
          "stagnation_window", [](auto& o) -> auto& { return o.guards.stagnation_window; },
          "Gives up when this many iterates in a row gain less than 1%; 0 never does.")
      .field(
          "divergence_factor", [](auto& o) -> auto& { return o.guards.divergence_factor; },
          "Gives up when the residual exceeds this many times its first value.")
      .done();
}

template <class Solver>
OptionsClass<Solver> solver(py::module_& module, const char* name, const char* doc) {
  return {module, name, doc, [](const Solver& options) { validate(SolverOptions{options}); }};
}

template <class Gradient>
OptionsClass<Gradient> gradient(py::module_& module, const char* name, const char* doc) {
  return {module, name, doc, [](const Gradient& options) { validate(GradientOptions{options}); }};
}

template <class Shape>
OptionsClass<Shape> shape(py::module_& module, const char* name, const char* doc) {
  return {module, name, doc, [](const Shape& options) { validate(Schedule{.shape = options}); }};
}

void bind_solvers(py::module_& module) {
  auto picard = solver<Picard>(
      module, "Picard",
      "z ← z + damping·(f(z) − z). Needs no memory; converges where the Jacobian's spectral radius "
      "is < 1.");
  picard.field(
      "damping", [](auto& o) -> auto& { return o.damping; },
      "The fraction of f(z) − z that a step takes, 0 < damping ≤ 1.");
  add_common(picard);

  auto anderson = solver<Anderson>(
      module, "Anderson",
      "Anderson acceleration: the combination of the last `memory` iterates with the smallest "
      "residual.");
  anderson
      .field(
          "memory", [](auto& o) -> auto& { return o.memory; },
          "How many iterates are combined; 1 is damped Picard.")
      .field(
          "beta", [](auto& o) -> auto& { return o.beta; },
          "How much of the residuals goes into the combination, 0 < beta ≤ 1.")
      .field(
          "ridge", [](auto& o) -> auto& { return o.ridge; },
          "The Tikhonov term of the small linear system, ≥ 0.")
      .field(
          "ridge_scale", [](auto& o) -> auto& { return o.ridge_scale; },
          "Whether the ridge is relative to the mean diagonal of that system.")
      .field(
          "restart_factor", [](auto& o) -> auto& { return o.restart_factor; },
          "A sample whose residual is this many times its smallest starts anew, > 1.")
      .field(
          "mixing", [](auto& o) -> auto& { return o.mixing; },
          "A LearntMixing of the same memory, which corrects the weights and beta.");
  add_common(anderson);

  auto broyden =
      solver<Broyden>(module, "Broyden",
                      "\"Good\" Broyden: a secant approximation of (J − I)⁻¹ that starts from −I.");
  broyden
      .field(
          "memory", [](auto& o) -> auto& { return o.memory; },
          "How many updates fit before the history starts anew.")
      .field(
          "line_search", [](auto& o) -> auto& { return o.line_search; },
          "Whether to backtrack while a step does not lower the residual.")
      .field(
          "bfloat16_steps", [](auto& o) -> auto& { return o.bfloat16_steps; },
          "Whether a GPU keeps the steps of float32 states in bfloat16: half the memory.");
  add_common(broyden);

  auto limited = solver<LimitedBroyden>(
      module, "LimitedBroyden",
      "Broyden with a fixed history: the oldest update is dropped when `memory` is full.");
  limited.field(
      "memory", [](auto& o) -> auto& { return o.memory; },
      "How many of the last updates are kept.");
  add_common(limited);

  auto newton = solver<NewtonKrylov>(module, "NewtonKrylov",
                                     "Newton's method; each linear system (I − J) d = g by GMRES.");
  newton
      .field(
          "krylov_dim", [](auto& o) -> auto& { return o.krylov_dim; }, "Vectors of GMRES.")
      .field(
          "forcing", [](auto& o) -> auto& { return o.forcing; },
          "GMRES stops when it has reduced its residual to this fraction, 0 ≤ forcing < 1.");
  add_common(newton);
}

void bind_gradients(py::module_& module) {
  gradient<Implicit>(module, "Implicit",
                     "Exact: u (I − J) = g, solved as the fixed point of u ↦ uJ + g. With `twice` "
                     "it can be differentiated again (create_graph), to any order.")
      .field(
          "solver", [](auto& o) -> auto& { return o.solver; },
          "Solves the adjoint system, from u = 0.")
      .field(
          "twice", [](auto& o) -> auto& { return o.twice; },
          "Whether the gradient can be differentiated again (create_graph).")
      .done();
  gradient<Truncated>(module, "Truncated",
                      "The first terms of the Neumann series: u = g (I + J + … + Jᵏ), k = terms.")
      .field(
          "terms", [](auto& o) -> auto& { return o.terms; }, "Products with the Jacobian.")
      .done();
  gradient<JacobianFree>(module, "JacobianFree", "u = g, no product at all (Fung et al. 2022).")
      .done();
  gradient<Shine>(
      module, "Shine",
      "The adjoint from the inverse that the forward solve by Broyden has built: no "
      "product (Ramzi et al. 2022). Where it is longer than `fallback` times g, g. With "
      "`refinement`, a solver, the adjoint solve goes on from there.")
      .field(
          "fallback", [](auto& o) -> auto& { return o.fallback; },
          "Where u is longer than this many times g, g is taken.")
      .field(
          "refinement", [](auto& o) -> auto& { return o.refinement; },
          "A solver that goes on from u, or None.")
      .done();
  gradient<Phantom>(module, "Phantom",
                    "Backpropagation through `steps` damped steps z ← (1 − τ) z + τ f(z) from z* "
                    "(Geng et al. 2021).")
      .field(
          "steps", [](auto& o) -> auto& { return o.steps; },
          "Damped steps from z* that are backpropagated through.")
      .field(
          "tau", [](auto& o) -> auto& { return o.tau; }, "The damping, 0 < tau ≤ 1.")
      .done();
  gradient<Unrolled>(module, "Unrolled",
                     "No solver: `steps` plain steps from z₀, backpropagated through, or only the "
                     "last of them.")
      .field(
          "steps", [](auto& o) -> auto& { return o.steps; }, "Plain steps from z₀.")
      .field(
          "backpropagated", [](auto& o) -> auto& { return o.backpropagated; },
          "Only through the last so many of them; 0: through all.")
      .field(
          "replayed", [](auto& o) -> auto& { return o.replayed; },
          "Whether the steps may be replayed on a GPU.")
      .field(
          "measured", [](auto& o) -> auto& { return o.measured; },
          "Whether one more evaluation tells the residual of the last state.")
      .done();
  gradient<Reversible>(module, "Reversible",
                       "No solver: `steps` steps y ← (1 − β) y + β f(z), z ← (1 − β) z + β f(y), "
                       "which backward() undoes: exact, with memory that does not grow with them "
                       "(McCallum et al. 2025).")
      .field(
          "steps", [](auto& o) -> auto& { return o.steps; },
          "Steps of two evaluations each from z₀.")
      .field(
          "beta", [](auto& o) -> auto& { return o.beta; },
          "How much of f a step takes, 0 < beta < 1.")
      .done();
}

void bind_schedules(py::module_& module) {
  shape<ConstantSchedule>(module, "ConstantSchedule", "The same value at every step.")
      .field(
          "value", [](auto& o) -> auto& { return o.value; })
      .done();
  // `from` is a word of Python's own.
  shape<LinearSchedule>(
      module, "LinearSchedule",
      "`from_` until step `begin`, `to` from step `end` on, linear in between. begin ≤ end.")
      .field(
          "from_", [](auto& o) -> auto& { return o.from; })
      .field(
          "to", [](auto& o) -> auto& { return o.to; })
      .field(
          "begin", [](auto& o) -> auto& { return o.begin; })
      .field(
          "end", [](auto& o) -> auto& { return o.end; })
      .done();
  shape<StaircaseSchedule>(module, "StaircaseSchedule",
                           "start + increment·⌊step / every⌋, every ≥ 1.")
      .field(
          "start", [](auto& o) -> auto& { return o.start; })
      .field(
          "increment", [](auto& o) -> auto& { return o.increment; })
      .field(
          "every", [](auto& o) -> auto& { return o.every; })
      .done();
  OptionsClass<Schedule>(module, "Schedule", "A number that depends on the training step.",
                         [](const Schedule& schedule) { validate(schedule); })
      .field(
          "shape", [](auto& o) -> auto& { return o.shape; })
      .field(
          "stop", [](auto& o) -> auto& { return o.stop; })
      .done()
      .def("at", &Schedule::at, py::arg("step"), "The number at this step.");
}

}  // namespace

void bind_options(py::module_& module) {
  bind_solvers(module);
  bind_gradients(module);
  bind_schedules(module);
  OptionsClass<Hutchinson>(module, "Hutchinson",
                           "Hutchinson's estimator of ‖J‖²_F from random probes.",
                           [](const Hutchinson& options) { validate(options); })
      .field(
          "probes", [](auto& o) -> auto& { return o.probes; }, "Random vectors per sample.")
      .field(
          "distribution", [](auto& o) -> auto& { return o.distribution; },
          "Of the entries of a probe.")
      .done();
  // Checked where they are used.
  OptionsClass<SpectralRadiusOptions>(module, "SpectralRadiusOptions",
                                      "How a spectral radius is computed.", [](const auto&) {})
      .field(
          "krylov_dim", [](auto& o) -> auto& { return o.krylov_dim; },
          "Arnoldi vectors before a restart.")
      .field(
          "max_products", [](auto& o) -> auto& { return o.max_products; },
          "The most products with J.")
      .field(
          "tolerance", [](auto& o) -> auto& { return o.tolerance; },
          "Stops at ‖Jv − λv‖ ≤ tolerance·|λ|.")
      .done();
  OptionsClass<EquilibriumOptions>(
      module, "EquilibriumOptions",
      "How an equilibrium is found and differentiated, and what happens when a solve fails.",
      [](const EquilibriumOptions& options) { const EquilibriumPlan plan(options); })
      .field(
          "forward", [](auto& o) -> auto& { return o.forward; }, "The solver that finds z*.")
      .field(
          "gradient", [](auto& o) -> auto& { return o.gradient; }, "How the gradient passes z*.")
      .field(
          "one_more_step", [](auto& o) -> auto& { return o.one_more_step; },
          "Whether the value with gradients is f(z*), not z*.")
      .field(
          "on_failure", [](auto& o) -> auto& { return o.on_failure; },
          "Whether a failed solve gives its best iterate or raises ConvergenceError.")
      .field(
          "float32_evals", [](auto& o) -> auto& { return o.float32_evals; },
          "The most evaluations in float32 with which a solve under autocast is finished, without "
          "gradients.")
      .field(
          "replay", [](auto& o) -> auto& { return o.replay; },
          "Whether passes on a GPU are recorded and replayed.")
      .field(
          "start_noise", [](auto& o) -> auto& { return o.start_noise; },
          "In training, a solve begins so many times normal numbers away from its start.")
      .done();
}

}  // namespace deq::python

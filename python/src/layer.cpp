#include <ATen/SavedTensorHooks.h>

#include <memory>
#include <optional>
#include <utility>

#include "bindings.h"
#include "cell.h"
#include "computed.h"
#include "graph.h"
#include "options.h"
#include "pickled.h"
#include "plan.h"
#include "replay/device_graph.h"

namespace deq::python {
namespace {

/// What a callback in Python sees.
struct PythonProgress {
  torch::Tensor z, f;
  TracePoint point;
};

/// Writing into either tensor changes it, where torch counts that.
int64_t writes_into(const Progress& progress) {
  if (progress.z.is_inference() || progress.f.is_inference()) return 0;
  return progress.z._version() + progress.f._version();
}

Callback callback_of(const py::object& function) {
  if (function.is_none()) return {};
  return [held = Held(function)](const Progress& progress) {
    const py::gil_scoped_acquire gil;
    const auto before = writes_into(progress);
    const auto answer = (*held)(
        PythonProgress{.z = shown(progress.z), .f = shown(progress.f), .point = progress.point});
    if (writes_into(progress) != before) {
      throw Error(
          "callback wrote into progress.z or progress.f, with which the solver goes on: write into "
          "a clone() of it");
    }
    if (answer.is_none()) return true;
    py::detail::make_caster<bool> goes_on;
    if (goes_on.load(answer, /*convert=*/true)) return py::detail::cast_op<bool>(goes_on);
    throw py::type_error("callback returned a " + kind_of(answer) +
                         ", must return False to stop the solve, else True or None");
  };
}

/// f on a slab, for a solver that is called by itself.
Map map_of(const py::object& function) {
  return [cell = std::make_shared<PythonCell>(CellFunctions{.step = function,
                                                            .prepare = py::none(),
                                                            .initial_state = py::none(),
                                                            .replay_key = py::none()})](
             const torch::Tensor& z) { return cell->step({z}, {})[0]; };
}

/// Without the hooks on saved tensors that Python has set, until the end of the scope. An adjoint
/// solve reads what f's graph has saved once per product, and checkpointing would run the whole
/// layer anew each time. The graph of one step is small beside what a checkpoint saves.
class WithoutSavedTensorHooks {
 public:
  WithoutSavedTensorHooks() : before_(at::SavedTensorDefaultHooks::get_tls_state()) {
    at::SavedTensorDefaultHooks::set_tls_state({});
  }
  ~WithoutSavedTensorHooks() { at::SavedTensorDefaultHooks::set_tls_state(before_); }
  WithoutSavedTensorHooks(const WithoutSavedTensorHooks&) = delete;
  WithoutSavedTensorHooks& operator=(const WithoutSavedTensorHooks&) = delete;

 private:
  at::impl::SavedTensorDefaultHooksTLS before_;
};

/// An equilibrium layer around an f in Python.
class Layer {
 public:
  Layer(const CellFunctions& functions, const EquilibriumOptions& options)
      : cell_(std::make_shared<PythonCell>(functions)),
        plan_(options),
        layer_(std::static_pointer_cast<Cell>(cell_), PythonPlan::reporting(options)),
        own_uses_(cell_.use_count()) {}

  Equilibrated forward(const Inputs& inputs, const State& start, const PythonPlan* own_plan,
                       const Solver* solver, const Callback& callback, bool training) {
    if (layer_->is_training() != training) layer_->train(training);
    const auto& plan = own_plan != nullptr ? *own_plan : plan_;
    std::optional<WithoutSavedTensorHooks> kept;
    if (plan.takes_products()) kept.emplace();
    auto eq = layer_->forward(inputs, {.start = start,
                                       .plan = own_plan != nullptr ? &plan.plan() : nullptr,
                                       .solver = solver,
                                       .callback = callback});
    plan.raise_failures(eq);
    return eq;
  }

  PythonCell& cell() { return *cell_; }
  const Equilibrium& equilibrium() const { return layer_; }
  const EquilibriumOptions& options() const { return plan_.options(); }

  /// Whether no graph uses the cell any more.
  bool owns_cell_alone() const { return cell_.use_count() <= own_uses_; }

 private:
  std::shared_ptr<PythonCell> cell_;
  PythonPlan plan_;
  Equilibrium layer_;
  long own_uses_;
};

/// Warm starts of a layer around an f in Python.
class LayerStream {
 public:
  LayerStream(const Layer& layer, const StreamOptions& options)
      : layer_(layer.equilibrium()), plan_(layer.options()), stream_(layer_, options) {}

  Equilibrated next(const Inputs& inputs, bool training) {
    if (layer_->is_training() != training) layer_->train(training);
    auto eq = stream_.next(inputs);
    try {
      plan_.raise_failures(eq);
    } catch (...) {
      stream_.reset();
      throw;
    }
    return eq;
  }

  void reset() { stream_.reset(); }
  const StreamCost& cost() const { return stream_.cost(); }

 private:
  Equilibrium layer_;
  PythonPlan plan_;
  Stream stream_;
};

/// A layer holds f, and f may hold the layer: a method of the model that owns the layer does.
/// Python finds such cycles only if it sees both ends.
void join_cycle_collection(PyHeapTypeObject* heap_type) {
  auto* const type = &heap_type->ht_type;
  type->tp_flags |= Py_TPFLAGS_HAVE_GC;
  type->tp_traverse = [](PyObject* self, visitproc visit, void* arg) -> int {
    Py_VISIT(Py_TYPE(self));
    if (!py::detail::is_holder_constructed(self)) return 0;
    auto& layer = py::cast<Layer&>(py::handle(self));
    if (!layer.owns_cell_alone()) return 0;
    for (auto* object : layer.cell().objects()) Py_VISIT(object);
    return 0;
  };
  type->tp_clear = [](PyObject* self) -> int {
    if (!py::detail::is_holder_constructed(self)) return 0;
    py::cast<Layer&>(py::handle(self)).cell().drop_objects();
    return 0;
  };
}

}  // namespace

void bind_layer(py::module_& module) {
  py::class_<PythonProgress>(module, "Progress",
                             "What a callback sees after each observed iterate.")
      .def_readonly("z", &PythonProgress::z, "The iterate, as one slab [B, D].")
      .def_readonly("f", &PythonProgress::f, "f(z), as one slab [B, D].")
      .def_readonly("point", &PythonProgress::point);

  py::class_<Solution>(module, "Solution", "What a solver found.")
      .def_readonly("z", &Solution::z)
      .def_readonly("report", &Solution::report)
      .def("__repr__",
           [](const Solution& found) { return "<Solution: " + found.report.brief() + ">"; })
      .def(pickled(&Solution::z, &Solution::report));

  py::class_<Solver>(module, "Solver",
                     "A fixed-point solver for batches of problems z = f(z), on slabs [B, D].")
      .def(py::init([](const py::object& options) {
             SolverOptions chosen;
             if (const auto expected = read(options, chosen)) {
               throw py::type_error("Solver: options is " + quoted(options) + ", must be " +
                                    *expected);
             }
             return Solver(chosen);
           }),
           py::arg("options"))
      .def(
          "solve",
          [](const Solver& solver, const py::object& f, const torch::Tensor& z0,
             const py::object& callback) {
            const Problem problem{.f = map_of(f)};
            const auto observe = callback_of(callback);
            return computed([&] { return solver.solve(problem, z0, observe); });
          },
          py::arg("f"), py::arg("z0"), py::arg("callback") = py::none(),
          "Solves z = f(z) from z0 [B, D]. Builds no autograd graph.")
      .def_property_readonly("options",
                             [](const Solver& solver) { return py::cast(solver.options()); })
      .def(
          "__repr__",
          [](const Solver& solver) { return "Solver(" + quoted(py::cast(solver.options())) + ")"; })
      .def(py::pickle(
          [](const Solver& solver) { return py::cast(solver.options()); },
          [](const py::object& options) { return Solver(options.cast<SolverOptions>()); }));

  py::class_<PythonPlan>(module, "EquilibriumPlan",
                         "Options made ready for use. May serve several layers and threads.")
      .def(py::init([](const py::object& options) {
             if (!py::isinstance<EquilibriumOptions>(options)) {
               throw py::type_error("EquilibriumPlan: options is " + quoted(options) +
                                    ", must be EquilibriumOptions");
             }
             return PythonPlan(options.cast<EquilibriumOptions>());
           }),
           py::arg("options"))
      .def(py::init([](const py::kwargs& given) -> PythonPlan {
        const auto first = given.empty() ? std::string("forward")
                                         : py::str(given.begin()->first).cast<std::string>();
        throw py::type_error(
            "EquilibriumPlan takes its options as one: EquilibriumPlan("
            "EquilibriumOptions(" +
            first + "=…))");
      }))
      .def_property_readonly("options", &PythonPlan::options)
      .def("__repr__",
           [](const PythonPlan& plan) {
             return "EquilibriumPlan(" + quoted(py::cast(plan.options())) + ")";
           })
      .def(py::pickle([](const PythonPlan& plan) { return py::cast(plan.options()); },
                      [](const py::object& options) {
                        return PythonPlan(options.cast<EquilibriumOptions>());
                      }));

  py::class_<Equilibrated>(module, "Equilibrated",
                           "What one pass through an equilibrium layer gives.", py::dynamic_attr())
      .def_property_readonly(
          "z", [](const Equilibrated& eq) { return eq.z(); }, "The first state tensor.")
      .def_property_readonly(
          "state",
          [](const Equilibrated& eq) {
            py::tuple parts(eq.state.size());
            for (size_t i = 0; i < eq.state.size(); ++i) parts[i] = py::cast(eq.state[i]);
            return parts;
          },
          "z*, or with gradient f(z*), as a tuple of tensors.")
      .def_readonly("report", &Equilibrated::report, "How the solve went.")
      .def_property_readonly(
          "adjoint", [](const Equilibrated& eq) { return eq.adjoint(); },
          "How the adjoint solve went; status 'not run' before backward().")
      .def_property_readonly("replayed", &Equilibrated::replayed,
                             "Whether this pass was replayed, not evaluated.")
      .def(
          "linearization",
          [](const Equilibrated& eq) { return computed([&eq] { return eq.linearization(); }); },
          "f around the detached z*, for penalties and spectra.")
      .def("__repr__",
           [](const Equilibrated& eq) { return "<Equilibrated: " + eq.report.brief() + ">"; });

  py::class_<Layer>(module, "Layer", py::custom_type_setup(join_cycle_collection))
      .def(py::init([](py::object step, py::object prepare, py::object initial_state,
                       py::object replay_key, const EquilibriumOptions& options) {
             return std::make_unique<Layer>(CellFunctions{.step = std::move(step),
                                                          .prepare = std::move(prepare),
                                                          .initial_state = std::move(initial_state),
                                                          .replay_key = std::move(replay_key)},
                                            options);
           }),
           py::arg("step"), py::arg("prepare"), py::arg("initial_state"), py::arg("replay_key"),
           py::arg("options"))
      .def(
          "forward",
          [](Layer& layer, const Inputs& inputs, const State& start, const PythonPlan* plan,
             const Solver* solver, const py::object& callback, bool training) {
            const auto observe = callback_of(callback);
            return computed(
                [&] { return layer.forward(inputs, start, plan, solver, observe, training); });
          },
          py::arg("inputs"), py::arg("start"), py::arg("plan"), py::arg("solver"),
          py::arg("callback"), py::arg("training"))
      .def("set_leaves",
           [](Layer& layer, const std::vector<torch::Tensor>& parameters,
              const std::vector<torch::Tensor>& buffers) {
             layer.cell().set_leaves(parameters, buffers);
           })
      .def_property_readonly("options", &Layer::options);

  py::class_<StreamCost>(module, "StreamCost", "What a stream has cost so far.")
      .def_readonly("inputs", &StreamCost::inputs)
      .def_readonly("warm", &StreamCost::warm)
      .def_readonly("evaluations", &StreamCost::evaluations)
      .def_readonly("compared", &StreamCost::compared)
      .def_readonly("compared_warm", &StreamCost::compared_warm)
      .def_readonly("compared_cold", &StreamCost::compared_cold)
      .def_property_readonly("saved", &StreamCost::saved)
      .def("__repr__", [](const StreamCost& cost) {
        return "<StreamCost: " + std::to_string(cost.evaluations) + " evaluations for " +
               std::to_string(cost.inputs) + " inputs, " + std::to_string(cost.warm) + " warm>";
      });

  py::class_<LayerStream>(module, "LayerStream")
      .def(py::init([](const Layer& layer, int64_t compare_every, double extrapolate) {
             return std::make_unique<LayerStream>(
                 layer, StreamOptions{.compare_every = compare_every, .extrapolate = extrapolate});
           }),
           py::arg("layer"), py::arg("compare_every"), py::arg("extrapolate"))
      .def(
          "next",
          [](LayerStream& stream, const Inputs& inputs, bool training) {
            return computed([&] { return stream.next(inputs, training); });
          },
          py::arg("inputs"), py::arg("training"))
      .def("reset", &LayerStream::reset)
      .def_property_readonly("cost", [](const LayerStream& stream) { return stream.cost(); });

  module.def(
      "path_distance",
      [](const Equilibrated& eq, const Solver& solver, std::optional<at::Generator> generator) {
        return computed([&] { return path_distance(eq, solver, generator); });
      },
      py::arg("eq"), py::arg("solver"), py::arg("generator"));
  module.def(
      "start_distance",
      [](const Equilibrated& eq) { return computed([&eq] { return start_distance(eq); }); },
      py::arg("eq"));
  module.def(
      "step_distance",
      [](const Equilibrated& eq, const State& start) {
        return computed([&] { return step_distance(eq, start); });
      },
      py::arg("eq"), py::arg("start"));
  module.def(
      "mixing_loss",
      [](const py::object& f, const torch::Tensor& z0, const torch::Tensor& z_star,
         const Anderson& solver, double closeness) {
        const auto map = map_of(f);
        return computed([&] { return mixing_loss(map, z0, z_star, solver, closeness); });
      },
      py::arg("f"), py::arg("z0"), py::arg("z_star"), py::arg("solver"), py::arg("closeness"));

  module.def(
      "why_not_replayed",
      [](const torch::Tensor& z) -> std::optional<std::string> {
        if (records_graphs(z.device())) return std::nullopt;
        if (!z.is_cuda()) return "it is on the " + z.device().str() + ", and only a GPU replays";
        return cuda_status().reason;
      },
      py::arg("z"));
  module.def("tell_of_adjoint", &tell_of_adjoint, py::arg("eq"), py::arg("function"));
  module.def("has_node", &has_node, py::arg("tensors"), py::arg("inputs"), py::arg("name"),
             Unlocked());
  module.def("other_leaves", &other_leaves, py::arg("eq"), py::arg("inputs"), py::arg("known"),
             Unlocked());
}

}  // namespace deq::python

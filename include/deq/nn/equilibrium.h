#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "deq/adjoint/adjoint.h"
#include "deq/adjoint/options.h"
#include "deq/core/linearization.h"
#include "deq/core/report.h"
#include "deq/nn/cell.h"
#include "deq/solvers/solver.h"

namespace deq {

struct EquilibriumOptions {
  SolverOptions forward = Anderson{};
  GradientOptions gradient = Implicit{};
  /// ≥ 0. Under autocast in eval mode without gradients a solve goes on in float32 for so many
  /// evaluations at most, or until it has converged: rounded products hide small residuals.
  int64_t float32_evals = 0;
};

class RecordedStep;
struct StepShape;

/// Options made ready for use. Keeps its solver's workspaces, so one that is used again is cheaper
/// than a new one. May serve several layers and threads.
class EquilibriumPlan {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): options are a plan, only not made ready yet.
  EquilibriumPlan(const EquilibriumOptions& options);

  const EquilibriumOptions& options() const { return options_; }

 private:
  friend class EquilibriumImpl;
  EquilibriumOptions options_;
  Solver solver_;
  std::optional<Solver> float32_solver_;
  AdjointRule rule_;  // empty for Phantom and Unrolled, which backpropagate through their steps
};

/// What one pass through an equilibrium layer gives.
class Equilibrated {
 public:
  State state;    ///< z*, with gradient when autograd was on
  Report report;  ///< how the solve went

  /// The first state tensor, for the many cells that have one.
  const torch::Tensor& z() const { return state.front(); }

  /// How the adjoint solve went; status NotRun before backward().
  const Report& adjoint() const { return *adjoint_; }

  /// f around the detached z*, for Jacobian penalties and spectra. Shares the graph of the one step
  /// that the gradient needs anyway; where the gradient rule has none, it costs one evaluation. Sum
  /// a penalty made from it with the loss and call backward() once.
  const Linearization& linearization() const;

 private:
  friend class EquilibriumImpl;
  struct Tape;
  std::shared_ptr<Report> adjoint_;
  std::shared_ptr<Tape> tape_;
};

/// The layer z* = f(z*; x). It keeps nothing of a pass: it may be called many times in one graph,
/// in train or eval mode, and from several threads.
class EquilibriumImpl : public torch::nn::Module {
 public:
  explicit EquilibriumImpl(std::shared_ptr<Cell> cell, const EquilibriumOptions& options = {});

  /// From a module with forward(z, x), or from a Cell's holder.
  template <class Layer>
  explicit EquilibriumImpl(const torch::nn::ModuleHolder<Layer>& module,
                           const EquilibriumOptions& options = {})
      : EquilibriumImpl(as_cell(module), options) {}

  Equilibrated forward(const torch::Tensor& x) { return forward(Inputs{x}); }
  Equilibrated forward(const Inputs& inputs) {
    return forward(inputs, cell_->initial_state(inputs));
  }
  /// Starts from `z0`, e.g. the equilibrium of a similar input.
  Equilibrated forward(const Inputs& inputs, const State& z0);

  /// The same layer solved and differentiated otherwise for one pass.
  Equilibrated forward(const Inputs& inputs, const EquilibriumPlan& plan) {
    return forward(inputs, cell_->initial_state(inputs), plan);
  }
  Equilibrated forward(const Inputs& inputs, const State& z0, const EquilibriumPlan& plan);

  /// The same layer, solved otherwise for one pass (another budget, another solver). An Unrolled
  /// layer is solved too.
  Equilibrated forward(const Inputs& inputs, const Solver& solver, const Callback& callback = {});

  const std::shared_ptr<Cell>& cell() const { return cell_; }
  const EquilibriumOptions& options() const { return plan_.options(); }

 private:
  struct StepRecordings;
  std::shared_ptr<RecordedStep> record(const StepShape& shape);
  Equilibrated begin(const Inputs& inputs, const StateLayout& layout);
  Equilibrated solve(const EquilibriumPlan& plan, const Inputs& inputs, const State& z0,
                     const Solver& solver, const Callback& callback);
  void finish_in_float32(const Solver& solver, const Inputs& inputs, const StateLayout& layout,
                         const Callback& callback, Solution& solution);
  Equilibrated unroll(const EquilibriumPlan& plan, const Inputs& inputs, const State& z0,
                      const Unrolled& how);

  std::shared_ptr<Cell> cell_;
  EquilibriumPlan plan_;
  std::shared_ptr<StepRecordings> recordings_;  // a clone of the layer shares them
};
TORCH_MODULE(Equilibrium);

}  // namespace deq

#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "deq/adjoint/adjoint.h"
#include "deq/adjoint/options.h"
#include "deq/core/cell.h"
#include "deq/core/error.h"
#include "deq/core/linearization.h"
#include "deq/core/replay.h"
#include "deq/core/report.h"
#include "deq/solvers/solver.h"

namespace deq {

/// What happens when a solve fails: its budget is spent, it stagnates, diverges or is not finite.
enum class OnFailure {
  Report,  ///< the best iterate is used, and the report says so
  Throw,   ///< a ConvergenceError, in forward() or in backward()
};

/// A solve failed where OnFailure::Throw was asked for. The message is the report's brief().
class ConvergenceError : public Error {
 public:
  using Error::Error;
};

struct EquilibriumOptions {
  SolverOptions forward = Anderson{};
  GradientOptions gradient = Implicit{};
  /// With gradients, the layer's value is f(z*), one step further than the solve: training is
  /// stabler where solves do not converge. Costs nothing, since the gradient needs f there anyway;
  /// Phantom, Unrolled and Reversible have steps of their own. Without gradients the value is z*.
  bool one_more_step = true;
  OnFailure on_failure = OnFailure::Report;
  /// ≥ 0. Under autocast in eval mode without gradients a solve goes on in float32 for so many
  /// evaluations at most, or until it has converged: rounded products hide small residuals.
  int64_t float32_evals = 0;
  Replay replay = Replay::Automatic;
  /// σ ≥ 0. In training mode a solve from the cell's own start begins at z₀ + σε, ε normal numbers
  /// of torch's own generator: a model that learns so gives the same answer from wherever it
  /// begins. Unrolled and reversible steps begin at z₀.
  double start_noise = 0;
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
  /// The rule of one pass, whose solve brought this inverse if the gradient asks for one.
  using PassRule = std::function<AdjointRule(std::shared_ptr<const SecantInverse>)>;
  static PassRule pass_rule(const EquilibriumOptions& options);

  EquilibriumOptions options_;
  Solver solver_;
  std::optional<Solver> float32_solver_;
  PassRule rule_;  // empty for the gradients that go back through steps of their own
};

/// What one pass through an equilibrium layer gives.
class Equilibrated {
 public:
  State state;    ///< z*, or with gradient f(z*): EquilibriumOptions::one_more_step
  Report report;  ///< how the solve went; its residuals are those of z* (see Unrolled::measured)

  /// The first state tensor, for the many cells that have one.
  const torch::Tensor& z() const { return state.front(); }

  /// How the adjoint solve went, or with Reversible the way back; status NotRun before backward().
  const Report& adjoint() const;

  /// Whether this pass was replayed, not evaluated.
  bool replayed() const;

  /// f around the detached z*, for Jacobian penalties and spectra. Shares the graph of the one step
  /// that the gradient needs anyway; where the gradient rule has none, it costs one evaluation. Sum
  /// a penalty made from it with the loss and call backward() once.
  const Linearization& linearization() const;

  /// z₀, with its graph where it has one, as a predicted start does. A loss on it that is to reach
  /// what a given start was made from shares one backward() with the losses that have that graph.
  State start() const;

  /// f(z), with gradients to z and, of a pass with gradients, to all that f depends on. Error where
  /// the pass was replayed in training mode: prepare() would draw anew. Not from several threads at
  /// once.
  State stepped_from(const State& z) const;

  /// What `solver` finds for the same f from another start, without gradients. In training mode
  /// prepare() may draw anew for it.
  Solution solved_from(const State& start, const Solver& solver) const;

 private:
  friend class EquilibriumImpl;
  struct Tape;
  std::shared_ptr<Report> adjoint_;
  std::shared_ptr<Tape> tape_;
};

/// How one pass goes where it differs from the layer's own way.
struct Pass {
  /// z₀, e.g. the equilibrium of a similar input; else the cell's. It is kept with its graph, for
  /// start_distance, as long as what the pass gives: detach one whose graph is of no use, such as
  /// the equilibrium of the step before in a training.
  State start{};
  const EquilibriumPlan* plan = nullptr;  ///< solved and differentiated otherwise
  /// Solved otherwise; a layer whose gradient replaces the solver (Unrolled, Reversible) is solved
  /// too, and its state then has no gradient.
  const Solver* solver = nullptr;
  Callback callback{};  ///< called after each iterate of a solve
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
  Equilibrated forward(const Inputs& inputs, const Pass& pass = {});

  /// As a module's, with one sentence where CUDA is asked for and cannot be used.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

  /// With a clone of its cell, which must have one.
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;

  const std::shared_ptr<Cell>& cell() const { return cell_; }
  const EquilibriumOptions& options() const { return plan_.options(); }

 private:
  /// The clone of a module that has such a layer clones it so.
  void clone_(torch::nn::Module& other, const std::optional<torch::Device>& device) override;
  void take_modes_of(const EquilibriumImpl& original);

  struct StepRecordings;
  std::shared_ptr<RecordedStep> record(const EquilibriumPlan& plan, StepShape shape);
  Equilibrated begin(const Inputs& inputs, const StateLayout& layout, const torch::Device& device);
  Equilibrated solve(const EquilibriumPlan& plan, const Inputs& inputs, const State& z0,
                     const Solver& solver, const Callback& callback);
  void finish_in_float32(const EquilibriumPlan& plan, const Inputs& inputs,
                         const StateLayout& layout, const Callback& callback, Solution& solution);
  Equilibrated unroll(const EquilibriumPlan& plan, const Inputs& inputs, const State& z0,
                      const Unrolled& how);
  Equilibrated step_reversibly(const EquilibriumPlan& plan, const Inputs& inputs, const State& z0,
                               const Reversible& how);

  std::shared_ptr<Cell> cell_;
  EquilibriumPlan plan_;
  std::shared_ptr<StepRecordings> recordings_;  // a copy of the holder's object shares them
};
TORCH_MODULE(Equilibrium);

}  // namespace deq

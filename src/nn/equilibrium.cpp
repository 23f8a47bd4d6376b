#include "deq/nn/equilibrium.h"

#include <mutex>

#include "core/autocast.h"
#include "deq/core/error.h"
#include "nn/recorded_adjoint.h"
#include "nn/unrolled_steps.h"

namespace deq {

/// One pass: its f on the slab, and what is made of it on demand.
struct Equilibrated::Tape {
  Tape(std::shared_ptr<Cell> f_cell, StateLayout f_layout, Inputs f_inputs)
      : cell(std::move(f_cell)), layout(std::move(f_layout)), inputs(std::move(f_inputs)) {}

  std::shared_ptr<Cell> cell;
  StateLayout layout;
  Inputs inputs;
  torch::Tensor z_star{};                    // a detached slab
  std::shared_ptr<RecordedStep> recorded{};  // where f's graph at z* is replayed
  std::optional<BoundStep> bound{};
  std::once_flag linearized{};
  Linearization at{};

  /// f with its context attached: gradients reach the inputs and prepare()'s parameters.
  const BoundStep& f() {
    if (!bound) bound = BoundStep{.cell = cell, .layout = layout, .context = cell->prepare(inputs)};
    return *bound;
  }

  const Linearization& linearize() {
    std::call_once(linearized, [this] {
      if (recorded) {
        recorded->linearise(z_star);
        at = recorded_linearization(inputs, z_star, recorded);
        return;
      }
      const torch::AutoGradMode grad(true);
      at.z = z_star.detach().requires_grad_();
      at.f = f()(at.z);
    });
    return at;
  }
};

const Linearization& Equilibrated::linearization() const {
  require(tape_ != nullptr, "this equilibrium holds no solve");
  return tape_->linearize();
}

namespace {

AdjointRule make_rule(const GradientOptions& options) {
  if (const auto* implicit = std::get_if<Implicit>(&options)) {
    return implicit_rule(Solver(implicit->solver));
  }
  if (const auto* truncated = std::get_if<Truncated>(&options)) {
    return truncated_rule(truncated->terms);
  }
  if (std::holds_alternative<JacobianFree>(options)) return truncated_rule(0);
  return {};
}

Problem problem_of(RecordedStep& recorded) {
  return {.f = [&recorded](const torch::Tensor& slab) { return recorded.f(slab); },
          .place_of_z = recorded.place_of_z(),
          .overwrites_results = true};
}

std::optional<Solver> float32_solver(const EquilibriumOptions& options) {
  const auto evals = options.float32_evals;
  require(evals >= 0, "float32_evals is ", evals, ", must be ≥ 0");
  if (evals == 0) return {};
  return Solver(with_max_evals(options.forward, evals));
}

}  // namespace

EquilibriumPlan::EquilibriumPlan(const EquilibriumOptions& options)
    : options_(options),
      solver_(options_.forward),
      float32_solver_(float32_solver(options_)),
      rule_((validate(options_.gradient), make_rule(options_.gradient))) {}

struct EquilibriumImpl::StepRecordings : Recordings<RecordedStep> {
  RecordingSignature signature_of(const StepShape& shape) {
    RecordingSignature signature(shape.z.device());
    signature.add(shape.z).add(shape.with_gradients ? 1 : 0);
    for (const auto& tensor : shape.inputs) signature.add(tensor);
    add(*shape.cell, signature);
    return signature;
  }

  ReplayedSteps unrolled;
};

EquilibriumImpl::EquilibriumImpl(std::shared_ptr<Cell> cell, const EquilibriumOptions& options)
    : cell_(register_module("cell", std::move(cell))),
      plan_(options),
      recordings_(std::make_shared<StepRecordings>()) {}

Equilibrated EquilibriumImpl::forward(const Inputs& inputs, const State& z0,
                                      const EquilibriumPlan& plan) {
  if (const auto* unrolled = std::get_if<Unrolled>(&plan.options_.gradient)) {
    return unroll(plan, inputs, z0, *unrolled);
  }
  return solve(plan, inputs, z0, plan.solver_, {});
}

Equilibrated EquilibriumImpl::forward(const Inputs& inputs, const State& z0) {
  return forward(inputs, z0, plan_);
}

Equilibrated EquilibriumImpl::forward(const Inputs& inputs, const Solver& solver,
                                      const Callback& callback) {
  return solve(plan_, inputs, cell_->initial_state(inputs), solver, callback);
}

std::shared_ptr<RecordedStep> EquilibriumImpl::record(const StepShape& shape) {
  if (!records_graphs(shape.z.device())) return nullptr;
  auto recorded = recordings_->lend(recordings_->signature_of(shape),
                                    [&shape] { return std::make_shared<RecordedStep>(shape); });
  if (recorded) recorded->load(shape.inputs);
  return recorded;
}

Equilibrated EquilibriumImpl::begin(const Inputs& inputs, const StateLayout& layout) {
  Equilibrated result;
  result.adjoint_ = std::make_shared<Report>();
  result.tape_ = std::make_shared<Equilibrated::Tape>(cell_, layout, inputs);
  return result;
}

Equilibrated EquilibriumImpl::solve(const EquilibriumPlan& plan, const Inputs& inputs,
                                    const State& z0, const Solver& solver,
                                    const Callback& callback) {
  const auto layout = StateLayout::of(z0);
  auto result = begin(inputs, layout);
  auto& tape = *result.tape_;
  const auto start = layout.pack(z0);
  const bool grad = torch::GradMode::is_enabled();
  const bool implicit = grad && plan.rule_;
  if (implicit) recordings_->unrolled.forget();  // whoever unrolls does so at first, if at all
  // A pass without gradients gives its recording back at once and is linearised by an evaluation of
  // its own, if ever: what prepare() draws in training would then be drawn anew.
  std::shared_ptr<RecordedStep> recorded;
  const bool evaluates = !grad && !cell_->is_training();
  if (implicit || evaluates) {
    recorded = record({.cell = cell_,
                       .layout = layout,
                       .inputs = inputs,
                       .z = start,
                       .with_gradients = implicit});
  }
  const auto problem = recorded ? problem_of(*recorded) : Problem{.f = without_gradients(tape.f())};
  auto solution = solver.solve(problem, start, callback);
  if (evaluates && plan.float32_solver_ &&
      at::autocast::is_autocast_enabled(start.device().type())) {
    finish_in_float32(*plan.float32_solver_, inputs, layout, callback, solution);
  }
  result.report = std::move(solution.report);
  tape.z_star = solution.z;
  auto z = solution.z;
  if (implicit && recorded) {
    tape.recorded = recorded;
    z = attach_recorded_adjoint(inputs, tape.linearize(), recorded, plan.rule_, result.adjoint_);
  } else if (implicit) {
    z = attach_adjoint(z, tape.linearize(), plan.rule_, result.adjoint_);
  } else if (const auto* phantom = std::get_if<Phantom>(&plan.options_.gradient);
             phantom != nullptr && grad) {
    for (int64_t k = 0; k < phantom->steps; ++k) z = torch::lerp(z, tape.f()(z), phantom->tau);
  }
  result.state = layout.unpack(z);
  return result;
}

void EquilibriumImpl::finish_in_float32(const Solver& solver, const Inputs& inputs,
                                        const StateLayout& layout, const Callback& callback,
                                        Solution& solution) {
  const NoAutocast exact(solution.z.device());
  const auto recorded =
      record({.cell = cell_, .layout = layout, .inputs = inputs, .z = solution.z});
  const auto problem =
      recorded ? problem_of(*recorded)
               : Problem{.f = BoundStep{
                             .cell = cell_, .layout = layout, .context = cell_->prepare(inputs)}};
  auto finished = solver.solve(problem, solution.z, callback);
  solution.report.append(finished.report);
  solution.z = finished.z;
}

Equilibrated EquilibriumImpl::unroll(const EquilibriumPlan& plan, const Inputs& inputs,
                                     const State& z0, const Unrolled& how) {
  const auto layout = StateLayout::of(z0);
  auto result = begin(inputs, layout);
  auto& tape = *result.tape_;
  const auto unrolled = how.replayed && records_graphs(z0[0].device())
                            ? recordings_->unrolled(cell_, inputs, z0, how.steps)
                            : unrolled_steps(tape.f(), layout.pack(z0).detach(), how.steps);
  tape.z_star = unrolled.z.detach();
  // One more evaluation, so that the report speaks of the state returned.
  const Solver measure(with_max_evals(plan.options_.forward, 1));
  const Problem known{.f = [&unrolled](const torch::Tensor&) { return unrolled.f_of_z; }};
  result.report = measure.solve(known, tape.z_star).report;
  result.report.evaluations += how.steps;
  for (auto& sample : result.report.samples) sample.evaluations += how.steps;
  for (auto& point : result.report.trace) point.evaluations += how.steps;
  result.state = layout.unpack(unrolled.z);
  return result;
}

}  // namespace deq

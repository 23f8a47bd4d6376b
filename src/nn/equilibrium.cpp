#include "deq/nn/equilibrium.h"

#include <mutex>
#include <optional>

#include "deq/core/error.h"
#include "nn/recorded_adjoint.h"
#include "nn/step_recordings.h"

namespace deq {

/// One pass's f, on the slab. Its context is attached: gradients reach the inputs and prepare()'s
/// parameters.
struct Equilibrated::Tape {
  explicit Tape(BoundStep step) : f(std::move(step)) {}

  BoundStep f;
  torch::Tensor z_star;                      // a detached slab
  std::shared_ptr<RecordedStep> recorded{};  // where f's graph at z* is replayed
  std::once_flag linearized{};
  Linearization at{};

  const Linearization& linearize() {
    std::call_once(linearized, [this] {
      if (recorded) {
        recorded->linearise(z_star);
        at = recorded_linearization(f, z_star, recorded);
        return;
      }
      const torch::AutoGradMode grad(true);
      at.z = z_star.detach().requires_grad_();
      at.f = f(at.z);
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

Context detached(const Context& context) {
  Context result;
  result.reserve(context.size());
  for (const auto& tensor : context) result.push_back(tensor.defined() ? tensor.detach() : tensor);
  return result;
}

}  // namespace

EquilibriumPlan::EquilibriumPlan(const EquilibriumOptions& options)
    : options_(options),
      solver_(options_.forward),
      rule_((validate(options_.gradient), make_rule(options_.gradient))) {}

EquilibriumImpl::EquilibriumImpl(std::shared_ptr<Cell> cell, const EquilibriumOptions& options)
    : cell_(register_module("cell", std::move(cell))),
      plan_(options),
      recordings_(std::make_shared<StepRecordings>()) {}

Equilibrated EquilibriumImpl::forward(const Inputs& inputs, const State& z0,
                                      const EquilibriumPlan& plan) {
  if (const auto* unrolled = std::get_if<Unrolled>(&plan.options_.gradient)) {
    return unroll(plan, inputs, z0, unrolled->steps);
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

Equilibrated EquilibriumImpl::prepare(const Inputs& inputs, const StateLayout& layout) {
  Equilibrated result;
  result.adjoint_ = std::make_shared<Report>();
  result.tape_ = std::make_shared<Equilibrated::Tape>(
      BoundStep{.cell = cell_, .layout = layout, .context = cell_->prepare(inputs)});
  return result;
}

Equilibrated EquilibriumImpl::solve(const EquilibriumPlan& plan, const Inputs& inputs,
                                    const State& z0, const Solver& solver,
                                    const Callback& callback) {
  const auto layout = StateLayout::of(z0);
  auto result = prepare(inputs, layout);
  auto& tape = *result.tape_;
  const auto start = layout.pack(z0);
  const bool implicit = torch::GradMode::is_enabled() && plan.rule_;
  auto recorded = recordings_->lend(tape.f, start, /*with_gradients=*/implicit);
  Problem problem;
  if (recorded) {
    problem.f = [&](const torch::Tensor& slab) { return recorded->f(slab); };
  } else {
    problem.f = BoundStep{.cell = cell_, .layout = layout, .context = detached(tape.f.context)};
  }
  auto solution = solver.solve(problem, start, callback);
  result.report = std::move(solution.report);
  tape.z_star = solution.z;
  auto z = solution.z;
  if (implicit && recorded) {
    tape.recorded = recorded;
    z = attach_recorded_adjoint(tape.f, tape.linearize(), recorded, plan.rule_, result.adjoint_);
  } else if (implicit) {
    z = attach_adjoint(z, tape.linearize(), plan.rule_, result.adjoint_);
  } else if (const auto* phantom = std::get_if<Phantom>(&plan.options_.gradient);
             phantom != nullptr && torch::GradMode::is_enabled()) {
    for (int64_t k = 0; k < phantom->steps; ++k) z = torch::lerp(z, tape.f(z), phantom->tau);
  }
  result.state = layout.unpack(z);
  return result;
}

Equilibrated EquilibriumImpl::unroll(const EquilibriumPlan& plan, const Inputs& inputs,
                                     const State& z0, int64_t steps) {
  const auto layout = StateLayout::of(z0);
  auto result = prepare(inputs, layout);
  auto& tape = *result.tape_;
  auto z = layout.pack(z0).detach();
  for (int64_t k = 0; k < steps; ++k) z = tape.f(z);
  tape.z_star = z.detach();
  // One more evaluation, so that the report speaks of the state returned.
  const Solver measure(with_max_evals(plan.options_.forward, 1));
  const Problem problem{.f = [&tape](const torch::Tensor& slab) { return tape.f(slab); }};
  result.report = measure.solve(problem, tape.z_star).report;
  result.report.evaluations += steps;
  for (auto& sample : result.report.samples) sample.evaluations += steps;
  for (auto& point : result.report.trace) point.evaluations += steps;
  result.state = layout.unpack(z);
  return result;
}

}  // namespace deq

#include "deq/nn/equilibrium.h"

#include <mutex>
#include <optional>
#include <type_traits>

#include "deq/core/error.h"

namespace deq {

/// One pass's f, on the slab, with the context of that pass.
struct Equilibrated::Tape {
  Tape(std::shared_ptr<Cell> f_cell, StateLayout f_layout, Context f_context)
      : cell(std::move(f_cell)), layout(std::move(f_layout)), context(std::move(f_context)) {}

  std::shared_ptr<Cell> cell;
  StateLayout layout;
  Context context;       // attached: gradients reach the inputs and prepare()'s parameters
  torch::Tensor z_star;  // a detached slab
  std::once_flag linearized;
  Linearization at;

  torch::Tensor f(const torch::Tensor& slab) const {
    return layout.pack(cell->step(layout.unpack(slab), context));
  }

  const Linearization& linearize() {
    std::call_once(linearized, [this] {
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
    : cell_(register_module("cell", std::move(cell))), plan_(options) {}

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
  result.tape_ = std::make_shared<Equilibrated::Tape>(cell_, layout, cell_->prepare(inputs));
  return result;
}

Equilibrated EquilibriumImpl::solve(const EquilibriumPlan& plan, const Inputs& inputs,
                                    const State& z0, const Solver& solver,
                                    const Callback& callback) {
  const auto layout = StateLayout::of(z0);
  auto result = prepare(inputs, layout);
  auto& tape = *result.tape_;
  const auto constant = detached(tape.context);
  const Problem problem{.f = [&](const torch::Tensor& slab) {
    return layout.pack(cell_->step(layout.unpack(slab), constant));
  }};
  auto solution = solver.solve(problem, layout.pack(z0), callback);
  result.report = std::move(solution.report);
  tape.z_star = solution.z;
  auto z = solution.z;
  if (torch::GradMode::is_enabled()) {
    if (plan.rule_) {
      z = attach_adjoint(z, tape.linearize(), plan.rule_, result.adjoint_);
    } else if (const auto* phantom = std::get_if<Phantom>(&plan.options_.gradient)) {
      for (int64_t k = 0; k < phantom->steps; ++k) z = torch::lerp(z, tape.f(z), phantom->tau);
    }
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

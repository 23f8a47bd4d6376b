#include "deq/nn/equilibrium.h"

#include <algorithm>
#include <cmath>

#include "adjoint/reversible.h"
#include "core/autocast.h"
#include "core/jacobian_products.h"
#include "core/require.h"
#include "deq/core/cuda.h"
#include "deq/core/interruption.h"
#include "nn/check_inputs.h"
#include "nn/pass_tape.h"
#include "replay/recorded_adjoint.h"
#include "replay/recordings.h"
#include "replay/unrolled_steps.h"

namespace deq {

namespace {

void require_success(const Report& report, const char* solve) {
  const bool failed = report.status != Status::Converged && report.status != Status::UserStopped;
  require<ConvergenceError>(!failed, "the {} solve failed: {}", solve, report.brief());
}

/// A rule that solves, where its failures are thrown.
AdjointRule throwing(AdjointRule rule) {
  return [rule = std::move(rule)](const Linearization& at, const torch::Tensor& g, Report& report) {
    auto u = rule(at, g, report);
    require_success(report, "adjoint");
    return u;
  };
}

/// Of steps without a solver: that of the state z, whose image is known.
Report report_of_steps(const EquilibriumOptions& options, const torch::Tensor& z,
                       const torch::Tensor& f_of_z, int64_t evaluations) {
  const Solver measure(with_max_evals(options.forward, 1));
  auto report = measure.solve({.f = [&](const torch::Tensor&) { return f_of_z; }}, z).report;
  report.shift_evaluations(evaluations);
  return report;
}

void require_inverse(bool has_inverse, const SolverOptions& forward) {
  require(has_inverse,
          "the gradient shine reads the inverse that a forward solve by broyden builds; this one, "
          "by {}, builds none",
          solver_name(forward));
}

/// A step as a function of z and of the tensors in its context that have gradients; and those.
std::pair<ExplicitMap, std::vector<torch::Tensor>> explicit_map(const BoundStep& step) {
  std::vector<size_t> places;
  std::vector<torch::Tensor> arguments;
  for (size_t i = 0; i < step.context.size(); ++i) {
    if (!step.context[i].defined() || !step.context[i].requires_grad()) continue;
    places.push_back(i);
    arguments.push_back(step.context[i]);
  }
  const auto f = [step, places](const std::vector<torch::Tensor>& at) {
    auto other = step;
    for (size_t i = 0; i < places.size(); ++i) other.context[places[i]] = at[i + 1];
    return other(at[0]);
  };
  return {f, arguments};
}

bool differentiates_twice(const GradientOptions& options) {
  const auto* implicit = std::get_if<Implicit>(&options);
  return implicit != nullptr && implicit->twice;
}

bool wants_inverse(const GradientOptions& options) {
  return std::holds_alternative<Shine>(options);
}

Problem problem_of(RecordedStep& recorded) {
  return {.f = [&recorded](const torch::Tensor& slab) { return recorded.f(slab); },
          .z_buffer = recorded.z_buffer(),
          .overwrites_results = true};
}

bool has_graph(const State& state) {
  return std::ranges::any_of(state, [](const auto& part) { return part.requires_grad(); });
}

/// Gradients do not go through a solve to where it began.
State detached(State state) {
  for (auto& part : state) part = part.detach();
  return state;
}

void add_noise(State& state, double sigma) {
  if (sigma == 0) return;
  const PassScope pass;  // nobody records while this draws
  for (auto& part : state) part = torch::add(part, torch::randn_like(part), sigma);
}

std::optional<Solver> float32_solver(const EquilibriumOptions& options) {
  const auto evals = options.float32_evals;
  require(evals >= 0, "float32_evals is {}, must be ≥ 0", evals);
  if (evals == 0) return {};
  return Solver(with_max_evals(options.forward, evals));
}

EquilibriumOptions validated(const EquilibriumOptions& options) {
  validate(options.gradient);
  const auto noise = options.start_noise;
  require(std::isfinite(noise) && noise >= 0, "start_noise is {}, must be ≥ 0", noise);
  return options;
}

}  // namespace

EquilibriumPlan::EquilibriumPlan(const EquilibriumOptions& options)
    : options_(validated(options)),
      solver_(options_.forward),
      float32_solver_(float32_solver(options_)),
      rule_(pass_rule(options_)) {
  if (!wants_inverse(options_.gradient)) return;
  require_inverse(std::holds_alternative<Broyden>(options_.forward), options_.forward);
}

EquilibriumPlan::PassRule EquilibriumPlan::pass_rule(const EquilibriumOptions& options) {
  const bool throws = options.on_failure == OnFailure::Throw;
  if (const auto* shine = std::get_if<Shine>(&options.gradient)) {
    const auto refinement =
        shine->refinement ? std::optional(Solver(*shine->refinement)) : std::nullopt;
    return [fallback = shine->fallback, refinement,
            throws](std::shared_ptr<const SecantInverse> inverse) {
      auto rule = shine_rule(std::move(inverse), fallback, refinement);
      return throws && refinement ? throwing(std::move(rule)) : rule;
    };
  }
  const auto always = [](const AdjointRule& rule) {
    return [rule](const std::shared_ptr<const SecantInverse>&) { return rule; };
  };
  if (const auto* implicit = std::get_if<Implicit>(&options.gradient)) {
    const auto rule = implicit_rule(Solver(implicit->solver));
    return always(throws ? throwing(rule) : rule);
  }
  if (const auto* truncated = std::get_if<Truncated>(&options.gradient)) {
    return always(truncated_rule(truncated->terms));
  }
  if (std::holds_alternative<JacobianFree>(options.gradient)) return always(truncated_rule(0));
  return {};
}

struct EquilibriumImpl::StepRecordings : Recordings<RecordedStep> {
  RecordingSignature signature_of(const StepShape& shape, const ReplayKey& key) {
    RecordingSignature signature(shape.z.device());
    signature.add(shape.z).add(shape.with_gradients).add(shape.checked);
    for (const auto& tensor : shape.inputs) signature.add(tensor);
    add(*shape.cell, signature);
    signature.add(key);
    return signature;
  }

  ReplayedSteps unrolled;
};

EquilibriumImpl::EquilibriumImpl(std::shared_ptr<Cell> cell, const EquilibriumOptions& options)
    : cell_(register_module("cell", require_cell(std::move(cell)))),
      plan_(options),
      recordings_(std::make_shared<StepRecordings>()) {}

Equilibrated EquilibriumImpl::forward(const Inputs& inputs, const Pass& pass) {
  const auto& plan = pass.plan != nullptr ? *pass.plan : plan_;
  require_defined(inputs, "input");
  const auto& gradient = plan.options_.gradient;
  const bool takes_steps = pass.solver == nullptr && (std::holds_alternative<Unrolled>(gradient) ||
                                                      std::holds_alternative<Reversible>(gradient));
  auto start = pass.start.empty() ? cell_->initial_state(inputs) : pass.start;
  require_defined(start, "start");
  require_solvable(start);
  const bool solves_from_own = pass.start.empty() && !takes_steps;
  const double noise = solves_from_own && cell_->is_training() ? plan.options_.start_noise : 0;
  add_noise(start, noise);
  const bool can_be_made_again =
      pass.start.empty() && noise == 0 && !cell_->start_may_change() && !has_graph(start);
  const auto z0 = detached(start);
  try {
    auto result = [&] {
      if (takes_steps) {
        const auto* unrolled = std::get_if<Unrolled>(&gradient);
        return unrolled != nullptr
                   ? unroll(plan, inputs, z0, *unrolled)
                   : step_reversibly(plan, inputs, z0, std::get<Reversible>(gradient));
      }
      const auto& solver = pass.solver != nullptr ? *pass.solver : plan.solver_;
      return solve(plan, inputs, z0, solver, pass.callback);
    }();
    if (!can_be_made_again) result.tape_->start = std::move(start);
    return result;
  } catch (const c10::Error& refusal) {
    explain_refusal(refusal, *cell_, inputs, start);
  }
}

std::shared_ptr<torch::nn::Module> EquilibriumImpl::clone(
    const std::optional<torch::Device>& device) const {
  auto cell = std::dynamic_pointer_cast<Cell>(cell_->clone(device));
  require(cell != nullptr, "the clone of this equilibrium's cell is no Cell");
  auto copy = std::make_shared<EquilibriumImpl>(std::move(cell), options());
  copy->take_modes_of(*this);
  return copy;
}

void EquilibriumImpl::clone_(torch::nn::Module& other, const std::optional<torch::Device>& device) {
  auto& original = dynamic_cast<EquilibriumImpl&>(other);
  const auto copy = std::dynamic_pointer_cast<EquilibriumImpl>(original.clone(device));
  cell_ = replace_module("cell", copy->cell_);
  plan_ = copy->plan_;
  recordings_ = copy->recordings_;
  take_modes_of(original);
}

void EquilibriumImpl::take_modes_of(const EquilibriumImpl& original) {
  train(original.is_training());
  const auto own = modules(false), others = original.modules(false);  // from the outside in
  for (size_t i = 0; i < own.size(); ++i) own[i]->train(others[i]->is_training());
}

namespace {

void require_usable(const torch::Device& device) {
  if (!device.is_cuda()) return;
  const auto& cuda = cuda_status();
  require(cuda.available, "the device {} cannot be used: {}", device.str(), cuda.reason);
}

}  // namespace

void EquilibriumImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  require_usable(device);
  torch::nn::Module::to(device, dtype, non_blocking);
}

void EquilibriumImpl::to(torch::Dtype dtype, bool non_blocking) {
  torch::nn::Module::to(dtype, non_blocking);
}

void EquilibriumImpl::to(torch::Device device, bool non_blocking) {
  require_usable(device);
  torch::nn::Module::to(device, non_blocking);
}

std::shared_ptr<RecordedStep> EquilibriumImpl::record(const EquilibriumPlan& plan,
                                                      StepShape shape) {
  const auto replay = plan.options_.replay;
  const bool may_record = replay != Replay::Off && !PassScope::inside();
  const auto device = shape.z.device();
  if (!may_record || !records_graphs(device) || !all_are_on(device, shape.inputs)) return nullptr;
  const auto key = cell_->replay_key();
  if (!key) return nullptr;
  shape.checked = replay == Replay::Checked;
  shape.notice = recordings_->notice();
  auto recorded = recordings_->lend(recordings_->signature_of(shape, *key),
                                    [&shape] { return std::make_shared<RecordedStep>(shape); });
  if (recorded) {
    const PassScope pass;
    recorded->load(shape.inputs);
  }
  return recorded;
}

Equilibrated EquilibriumImpl::begin(const Inputs& inputs, const StateLayout& layout,
                                    const torch::Device& device) {
  Equilibrated result;
  result.adjoint_ = std::make_shared<Report>();
  result.tape_ = std::make_shared<Equilibrated::Tape>(cell_, layout, inputs, device);
  return result;
}

Equilibrated EquilibriumImpl::solve(const EquilibriumPlan& plan, const Inputs& inputs,
                                    const State& z0, const Solver& solver,
                                    const Callback& callback) {
  const auto layout = StateLayout::of(z0);
  auto result = begin(inputs, layout, z0[0].device());
  auto& tape = *result.tape_;
  const auto start = layout.pack(z0);
  const bool grad = torch::GradMode::is_enabled();
  const bool implicit = grad && plan.rule_;
  const bool twice = implicit && differentiates_twice(plan.options_.gradient);
  if (implicit) recordings_->unrolled.forget();  // whoever unrolls does so at first, if at all
  // A pass without gradients gives its recording back at once and is linearised by an evaluation of
  // its own, if ever: what prepare() draws in training would then be drawn anew.
  std::shared_ptr<RecordedStep> recorded;
  const bool evaluates = !grad && !cell_->is_training();
  if ((implicit && !twice) || evaluates) {
    recorded = record(plan, {.cell = cell_,
                             .layout = layout,
                             .inputs = inputs,
                             .z = start,
                             .with_gradients = implicit});
  }
  tape.replayed = recorded != nullptr;
  auto solution = [&] {
    const PassScope pass;
    if (twice) tape.prepare_to_evaluate_again();
    auto problem = recorded ? problem_of(*recorded) : Problem{.f = without_gradients(tape.f())};
    problem.keeps_inverse = implicit && wants_inverse(plan.options_.gradient);
    auto found = solver.solve(problem, start, callback);
    if (problem.keeps_inverse) require_inverse(found.inverse != nullptr, solver.options());
    return found;
  }();
  const bool stopped = solution.report.status == Status::UserStopped;
  if (evaluates && !stopped && plan.float32_solver_ &&
      at::autocast::is_autocast_enabled(start.device().type())) {
    finish_in_float32(plan, inputs, layout, callback, solution);
  }
  const PassScope pass;
  result.report = std::move(solution.report);
  if (plan.options_.on_failure == OnFailure::Throw) require_success(result.report, "forward");
  tape.settle(solution.z);
  auto z = solution.z;
  if (implicit) {
    if (recorded) tape.loan = std::make_shared<Loan<RecordedStep>>(std::move(recorded));
    const auto& at = tape.linearize();
    if (plan.options_.one_more_step) z = products_of(at).f().detach();
    auto rule = plan.rule_(std::move(solution.inverse));
    if (!tape.leads_anywhere()) {
      // Nothing that f uses wants a gradient.
    } else if (twice) {
      const auto [f, arguments] = explicit_map(tape.f());
      z = attach_differentiable_adjoint(z, at, f, arguments, tape.begin, std::move(rule),
                                        result.adjoint_);
    } else if (tape.loan) {
      z = attach_recorded_adjoint(z, inputs, at, tape.loan, std::move(rule), result.adjoint_);
    } else {
      z = attach_adjoint(z, at, std::move(rule), result.adjoint_);
    }
  } else if (const auto* phantom = std::get_if<Phantom>(&plan.options_.gradient);
             phantom != nullptr && grad) {
    for (int64_t k = 0; k < phantom->steps; ++k) {
      check_interruption();
      z = torch::lerp(z, tape.f()(z), phantom->tau);
    }
  }
  result.state = layout.unpack(z);
  return result;
}

void EquilibriumImpl::finish_in_float32(const EquilibriumPlan& plan, const Inputs& inputs,
                                        const StateLayout& layout, const Callback& callback,
                                        Solution& solution) {
  const NoAutocast exact(solution.z.device());
  const auto recorded =
      record(plan, {.cell = cell_, .layout = layout, .inputs = inputs, .z = solution.z});
  const PassScope pass;
  const auto problem =
      recorded ? problem_of(*recorded)
               : Problem{.f = BoundStep{
                             .cell = cell_, .layout = layout, .context = cell_->prepare(inputs)}};
  auto finished = plan.float32_solver_->solve(problem, solution.z, callback);
  solution.report.append(finished.report);
  solution.z = finished.z;
}

Equilibrated EquilibriumImpl::unroll(const EquilibriumPlan& plan, const Inputs& inputs,
                                     const State& z0, const Unrolled& how) {
  const auto layout = StateLayout::of(z0);
  auto result = begin(inputs, layout, z0[0].device());
  auto& tape = *result.tape_;
  const auto key = how.replayed ? cell_->replay_key() : std::nullopt;
  const auto unrolled = [&] {
    if (key && records_graphs(z0[0].device())) {
      return recordings_->unrolled(cell_, inputs, z0, how, plan.options_.replay, *key);
    }
    const PassScope pass;
    return unrolled_steps(tape.f(), layout.pack(z0), how);
  }();
  const auto z = unrolled.z.detach();
  tape.settle(z);
  tape.replayed = unrolled.replayed;
  const auto& before = how.measured ? z : unrolled.neighbour;
  const auto& after = how.measured ? unrolled.neighbour : z;
  result.report =
      report_of_steps(plan.options_, before, after, how.measured ? how.steps : how.steps - 1);
  result.state = layout.unpack(unrolled.z);
  return result;
}

Equilibrated EquilibriumImpl::step_reversibly(const EquilibriumPlan& plan, const Inputs& inputs,
                                              const State& z0, const Reversible& how) {
  const auto layout = StateLayout::of(z0);
  auto result = begin(inputs, layout, z0[0].device());
  auto& tape = *result.tape_;
  const PassScope pass;
  const auto [f, arguments] = explicit_map(tape.f());
  const bool throws = plan.options_.on_failure == OnFailure::Throw;
  const auto steps = reversible_steps(f, arguments, layout.pack(z0), how,
                                      [adjoint = result.adjoint_, throws](Report report) {
                                        *adjoint = std::move(report);
                                        if (throws) require_success(*adjoint, "adjoint");
                                      });
  const auto z = steps.z.detach();
  tape.settle(z);
  result.report = report_of_steps(plan.options_, z, steps.f_of_z, 2 * how.steps);
  result.state = layout.unpack(steps.z);
  return result;
}

}  // namespace deq

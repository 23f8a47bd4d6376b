#include "deq/adjoint/adjoint.h"

#include <torch/autograd.h>

#include <utility>

#include "adjoint/graph_leaves.h"
#include "adjoint/isolated.h"
#include "core/hooks.h"
#include "core/jacobian_products.h"
#include "core/require.h"
#include "deq/core/interruption.h"

namespace deq {
namespace {

/// What backward needs, carried by the graph itself.
struct AdjointCapsule : torch::CustomClassHolder {
  AdjointCapsule(Linearization point, ExplicitMap map, AdjointRule solve,
                 std::shared_ptr<Report> outcome)
      : at(std::move(point)),
        f(std::move(map)),
        rule(std::move(solve)),
        report(std::move(outcome)) {}
  Linearization at;
  ExplicitMap f;  // empty where the gradient is not to be differentiated again
  AdjointRule rule;
  std::shared_ptr<Report> report;
};

std::vector<torch::Tensor> differentiable_gradients(const AdjointCapsule& capsule,
                                                    const std::vector<torch::Tensor>& arguments,
                                                    const std::vector<torch::Tensor>& leaves,
                                                    const torch::Tensor& g);

/// Forward: f(z*) with its graph in, the value out. Backward: ∂ℓ/∂z* in, u out, which autograd then
/// pulls through f's graph.
///
/// That graph takes z* for a constant. So where backward itself gets a graph, it hands their
/// gradients to f's arguments and leaves directly, as functions of z* too.
struct AttachAdjoint : torch::autograd::Function<AttachAdjoint> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor&,
                               const torch::Tensor& value,
                               const c10::intrusive_ptr<AdjointCapsule>& capsule,
                               at::TensorList arguments, at::TensorList leaves) {
    context->saved_data["adjoint"] = c10::IValue::make_capsule(capsule);
    context->saved_data["arguments"] = static_cast<int64_t>(arguments.size());
    context->saved_data["leaves"] = static_cast<int64_t>(leaves.size());
    auto result = value.view_as(value);
    if (capsule->f) {
      std::vector<torch::Tensor> kept{result};
      kept.insert(kept.end(), arguments.begin(), arguments.end());
      kept.insert(kept.end(), leaves.begin(), leaves.end());
      context->save_for_backward(std::move(kept));
    }
    return result;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto capsule = c10::static_intrusive_pointer_cast<AdjointCapsule>(
        context->saved_data["adjoint"].toCapsule());
    const auto g = gradients[0].contiguous();
    const auto arguments = context->saved_data["arguments"].toInt();
    torch::autograd::tensor_list of_inputs(kFixedInputs);
    if (!torch::GradMode::is_enabled()) {
      of_inputs[0] = solved(*capsule, g);
      of_inputs.resize(kFixedInputs + arguments + context->saved_data["leaves"].toInt());
      return of_inputs;
    }
    require(static_cast<bool>(capsule->f),
            "this implicit gradient cannot be differentiated again (create_graph): set "
            "Implicit::twice, or use the Unrolled gradient");
    const auto saved = context->get_saved_variables();
    const auto split = saved.begin() + 1 + arguments;
    const auto more =
        differentiable_gradients(*capsule, {saved.begin(), split}, {split, saved.end()}, g);
    of_inputs.insert(of_inputs.end(), more.begin(), more.end());
    return of_inputs;
  }

  static torch::Tensor solved(const AdjointCapsule& capsule, const torch::Tensor& g) {
    Report report;
    auto u = capsule.rule(capsule.at, g, report);
    *capsule.report = std::move(report);
    return u;
  }

 private:
  static constexpr int64_t kFixedInputs = 3;  // before arguments and leaves
};

void require_no_hooks(const std::vector<torch::Tensor>& leaves) {
  for (const auto& leaf : leaves) {
    require(!has_hooks(leaf),
            "a tensor that f uses has or had a hook, which would run for parts of its gradient: "
            "there must be none where the gradient is to be differentiated again (create_graph)");
  }
}

/// u ∂f/∂(argument, leaf) for each argument but z and each leaf, where u (I − J) = g; as functions
/// of all arguments, z among them, of the leaves and of g.
std::vector<torch::Tensor> differentiable_gradients(const AdjointCapsule& capsule,
                                                    const std::vector<torch::Tensor>& arguments,
                                                    const std::vector<torch::Tensor>& leaves,
                                                    const torch::Tensor& g) {
  require_no_hooks(leaves);
  const TensorMap map = [f = capsule.f](const std::vector<torch::Tensor>& at) {
    return std::vector{f(at)};
  };
  // u ↦ uJ + g, of u, g and f's arguments.
  const auto step = [map, leaves](const std::vector<torch::Tensor>& at) {
    return isolated_gradients(map, {at.begin() + 2, at.end()}, {at[0]}, leaves)[0] + at[1];
  };
  auto of_step = arguments;
  of_step.insert(of_step.begin(), g);
  const auto solution = [&] {
    const torch::NoGradGuard no_grad;
    return AttachAdjoint::solved(capsule, g.detach()).detach();
  }();
  auto at_solution = of_step;
  at_solution.insert(at_solution.begin(), solution.clone().requires_grad_());
  const auto u =
      attach_differentiable_adjoint(solution, Linearization(at_solution[0], step(at_solution)),
                                    step, of_step, capsule.rule, std::make_shared<Report>());
  auto all = isolated_gradients(map, arguments, {u}, leaves);
  all.erase(all.begin());  // uJ
  return all;
}

}  // namespace

AdjointRule implicit_rule(Solver solver) {
  return [solver = std::move(solver)](const Linearization& at, const torch::Tensor& g,
                                      Report& report) {
    const Problem problem{
        .f = [&](const torch::Tensor& u) { return products_of(at).passing_vjp(u) + g; },
        .jacobian_product = [&](const torch::Tensor&, const torch::Tensor& v) { return at.vjp(v); },
        .z_buffer = products_of(at).u_buffer(),
        .f_of_start = g};
    auto solution = solver.solve(problem, torch::zeros_like(g));
    report = std::move(solution.report);
    return solution.z;
  };
}

AdjointRule truncated_rule(int64_t terms) {
  return [terms](const Linearization& at, const torch::Tensor& g, Report& report) {
    auto u = g;
    for (int64_t k = 0; k < terms; ++k) {
      check_interruption();
      u = products_of(at).passing_vjp(u) + g;
    }
    report.status = Status::MaxEvaluations;
    report.evaluations = terms;
    return u;
  };
}

torch::Tensor attach_adjoint(const torch::Tensor& value, const Linearization& at, AdjointRule rule,
                             std::shared_ptr<Report> report) {
  return AttachAdjoint::apply(
      products_of(at).f(), value,
      c10::make_intrusive<AdjointCapsule>(at, ExplicitMap(), std::move(rule), std::move(report)),
      at::TensorList(), at::TensorList());
}

torch::Tensor attach_differentiable_adjoint(const torch::Tensor& value, const Linearization& at,
                                            ExplicitMap f,
                                            const std::vector<torch::Tensor>& arguments,
                                            AdjointRule rule, std::shared_ptr<Report> report) {
  const auto f_of_z = products_of(at).f();
  auto stops = arguments;
  stops.push_back(at.z());
  const auto leaves = graph_leaves(f_of_z, stops);
  return AttachAdjoint::apply(
      f_of_z, value,
      c10::make_intrusive<AdjointCapsule>(at, std::move(f), std::move(rule), std::move(report)),
      at::TensorList(arguments), at::TensorList(leaves));
}

}  // namespace deq

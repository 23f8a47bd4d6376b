#include "deq/adjoint/adjoint.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

#include "adjoint/graph_leaves.h"
#include "adjoint/isolated.h"
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
    // No view: whoever writes into it gets what torch says of any tensor that backward needs.
    auto result = value.detach();
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
    require(static_cast<bool>(capsule->rule), "{}", kBackwardTwice);
    if (!torch::GradMode::is_enabled()) {
      of_inputs[0] = solved(*capsule, g);
      // A rule may hold the history of a solve.
      if (!torch::autograd::get_current_graph_task_keep_graph()) capsule->rule = {};
      of_inputs.resize(kFixedInputs + arguments + context->saved_data["leaves"].toInt());
      return of_inputs;
    }
    require(static_cast<bool>(capsule->f),
            "this gradient cannot be differentiated again (create_graph): use Implicit with its "
            "option `twice`, or the Unrolled gradient");
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

/// u ∂f/∂(argument, leaf) for each argument but z and each leaf, where u (I − J) = g; as functions
/// of all arguments, z among them, of the leaves and of g.
std::vector<torch::Tensor> differentiable_gradients(const AdjointCapsule& capsule,
                                                    const std::vector<torch::Tensor>& arguments,
                                                    const std::vector<torch::Tensor>& leaves,
                                                    const torch::Tensor& g) {
  require_no_hooks(leaves, "where the gradient is to be differentiated again (create_graph)");
  const TensorMap map = [f = capsule.f, leaves](const std::vector<torch::Tensor>& at) {
    const auto value = f(at);
    require_same_leaves(value, at, leaves);
    return std::vector{value};
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
  const auto begin = graph_begins();
  const auto u =
      attach_differentiable_adjoint(solution, Linearization(at_solution[0], step(at_solution)),
                                    step, of_step, begin, capsule.rule, std::make_shared<Report>());
  auto all = isolated_gradients(map, arguments, {u}, leaves);
  all.erase(all.begin());  // uJ
  return all;
}

/// u = uJ + g.
Problem adjoint_problem(const Linearization& at, const torch::Tensor& g) {
  return {
      .f = [at, g](const torch::Tensor& u) { return products_of(at).passing_vjp(u) + g; },
      .jacobian_product = [at](const torch::Tensor&, const torch::Tensor& v) { return at.vjp(v); },
      .z_buffer = products_of(at).u_buffer()};
}

}  // namespace

AdjointRule implicit_rule(Solver solver) {
  return [solver = std::move(solver)](const Linearization& at, const torch::Tensor& g,
                                      Report& report) {
    auto problem = adjoint_problem(at, g);
    problem.f_of_start = g;
    auto solution = solver.solve(problem, torch::zeros_like(g));
    report = std::move(solution.report);
    return solution.z;
  };
}

AdjointRule shine_rule(std::shared_ptr<const SecantInverse> inverse, double fallback,
                       std::optional<Solver> refinement) {
  return [inverse = std::move(inverse), fallback, refinement = std::move(refinement)](
             const Linearization& at, const torch::Tensor& g, Report& report) {
    auto u = inverse->left_product(g);
    const auto norm = [](const torch::Tensor& slab) {
      return torch::norm(slab, 2, {1}, /*keepdim=*/true, torch::kDouble);
    };
    const auto usable = norm(u) <= fallback * norm(g);  // not where a norm is not a number
    u = torch::where(usable, u, g);
    if (refinement) {
      auto solution = refinement->solve(adjoint_problem(at, g), u);
      report = std::move(solution.report);
      u = solution.z;
    } else {
      report.status = Status::MaxEvaluations;
    }
    report.fallbacks = g.size(0) - usable.sum().item<int64_t>();
    return u;
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
                                            uint64_t begin, AdjointRule rule,
                                            std::shared_ptr<Report> report) {
  const auto f_of_z = products_of(at).f();
  auto stops = arguments;
  stops.push_back(at.z());
  const auto leaves = graph_leaves(f_of_z, stops, begin);
  return AttachAdjoint::apply(
      f_of_z, value,
      c10::make_intrusive<AdjointCapsule>(at, std::move(f), std::move(rule), std::move(report)),
      at::TensorList(arguments), at::TensorList(leaves));
}

}  // namespace deq

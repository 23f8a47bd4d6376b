#include "deq/adjoint/adjoint.h"

#include <torch/autograd.h>

#include <utility>

#include "core/jacobian_products.h"
#include "core/require.h"
#include "deq/core/interruption.h"

namespace deq {
namespace {

/// What backward needs, carried by the graph itself.
struct AdjointCapsule : torch::CustomClassHolder {
  AdjointCapsule(Linearization point, AdjointRule solve, std::shared_ptr<Report> outcome)
      : at(std::move(point)), rule(std::move(solve)), report(std::move(outcome)) {}
  Linearization at;
  AdjointRule rule;
  std::shared_ptr<Report> report;
};

/// Forward: f(z*) with its graph in, the value out. Backward: ∂ℓ/∂z* in, u out, which autograd then
/// pulls through f's graph.
struct AttachAdjoint : torch::autograd::Function<AttachAdjoint> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor&,
                               const torch::Tensor& value,
                               const c10::intrusive_ptr<AdjointCapsule>& capsule) {
    context->saved_data["adjoint"] = c10::IValue::make_capsule(capsule);
    return value.view_as(value);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    require(!torch::GradMode::is_enabled(),
            "the implicit gradient cannot be differentiated again (create_graph); use the Unrolled "
            "gradient where second derivatives are needed");
    const auto capsule = c10::static_intrusive_pointer_cast<AdjointCapsule>(
        context->saved_data["adjoint"].toCapsule());
    Report report;
    auto u = capsule->rule(capsule->at, gradients[0].contiguous(), report);
    *capsule->report = std::move(report);
    return {std::move(u), torch::Tensor(), torch::Tensor()};
  }
};

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
      c10::make_intrusive<AdjointCapsule>(at, std::move(rule), std::move(report)));
}

}  // namespace deq

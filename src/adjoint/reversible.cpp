#include "adjoint/reversible.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "adjoint/graph_leaves.h"
#include "core/autocast.h"
#include "core/jacobian_products.h"
#include "core/require.h"
#include "deq/core/interruption.h"

// A step of the pair (y, z), and the same step undone:
//
//   y' = (1 − β) y + β f(z)          z = (z' − β f(y')) / (1 − β)
//   z' = (1 − β) z + β f(y')         y = (y' − β f(z)) / (1 − β)
//
// Backward starts from the last pair with the gradients b = ∂ℓ/∂z' and a = ∂ℓ/∂y' = 0. Each step
// undone evaluates f at y' and at z, on a tape that it drops again, and takes from it
//
//   a ← a + β b J(y'),  b ← (1 − β) b,   then   b ← b + β a J(z),  a ← (1 − β) a,
//
// and the same products with ∂f/∂(arguments, leaves), which are summed. The pair, a and b are
// float64; f computes in the state's own type.

namespace deq {
namespace {

using Tensors = std::vector<torch::Tensor>;

/// What backward needs: the last pair, not those before it.
struct ReversibleCapsule : torch::CustomClassHolder {
  ReversibleCapsule(ExplicitMap map, const torch::Tensor& from, const Reversible& options,
                    WalkedBack then)
      : f(std::move(map)),
        start(from),
        how(options),
        walked_back(std::move(then)),
        autocast(from.device()) {}
  ExplicitMap f;
  torch::Tensor start, y{}, z{};
  Reversible how;
  WalkedBack walked_back;
  AutocastSetting autocast;
};

torch::Tensor blended(const torch::Tensor& state, const torch::Tensor& f, double beta) {
  return (1.0 - beta) * state + beta * f.to(torch::kDouble);
}

torch::Tensor undone(const torch::Tensor& state, const torch::Tensor& f, double beta) {
  return (state - beta * f.to(torch::kDouble)) / (1.0 - beta);
}

/// f evaluated on the way back, and the sums of its gradients.
class WayBack {
 public:
  WayBack(const ExplicitMap& f, torch::ScalarType type, const Tensors& arguments, Tensors leaves)
      : f_(f), type_(type), sources_(1), leaves_(std::move(leaves)) {
    for (const auto& argument : arguments) sources_.push_back(argument.detach().requires_grad_());
    sums_.resize(arguments.size() + leaves_.size());
  }

  /// f(at), and v J(at) in float64.
  std::pair<torch::Tensor, torch::Tensor> operator()(const torch::Tensor& at,
                                                     const torch::Tensor& v) {
    check_interruption();
    const torch::AutoGradMode grad(true);
    sources_[0] = at.to(type_, /*non_blocking=*/false, /*copy=*/true).requires_grad_();
    const auto value = f_(sources_);
    if (!std::exchange(compared_, true)) require_same_leaves(value, sources_, leaves_);
    auto all = sources_;
    all.insert(all.end(), leaves_.begin(), leaves_.end());
    // What f uses may have a history that is not its own.
    const auto gradients = torch::autograd::grad({value}, all, {v.to(type_)}, /*retain_graph=*/true,
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    const torch::NoGradGuard constant;
    for (size_t i = 0; i < sums_.size(); ++i) add(sums_[i], gradients[i + 1]);
    const auto product =
        gradients[0].defined() ? gradients[0].to(torch::kDouble) : torch::zeros_like(at);
    return {value.detach(), product};
  }

  /// By argument, then by leaf; undefined where f does not depend on one.
  const Tensors& sums() const { return sums_; }

 private:
  static void add(torch::Tensor& sum, const torch::Tensor& gradient) {
    if (!gradient.defined()) return;
    sum = sum.defined() ? sum + gradient : gradient;
  }

  const ExplicitMap& f_;
  torch::ScalarType type_;
  Tensors sources_;  // z, then the arguments
  Tensors leaves_, sums_;
  bool compared_ = false;
};

/// How far from the start the pair is.
Report distance_report(const torch::Tensor& y, const torch::Tensor& z,
                       const ReversibleCapsule& capsule) {
  const auto start = capsule.start.to(torch::kDouble);
  const auto squares = ((y - start).square().sum(1) + (z - start).square().sum(1)) / 2;
  const auto distances = squares.sqrt().cpu(), sizes = capsule.z.norm(2, 1).cpu();
  Report report;
  report.status = Status::Converged;
  report.evaluations = 2 * capsule.how.steps;
  for (int64_t b = 0; b < distances.size(0); ++b) {
    const double absolute = distances[b].item<double>(), size = sizes[b].item<double>();
    const double relative = absolute == 0 ? 0 : absolute / size;
    auto status = relative <= kLostStart ? Status::Converged : Status::Diverged;
    if (!std::isfinite(absolute)) status = Status::NonFinite;
    report.samples.push_back({status, report.evaluations, absolute, relative});
    report.status = std::max(report.status, status);
  }
  return report;
}

/// Forward: the last z. Backward: the steps undone.
struct UndoneSteps : torch::autograd::Function<UndoneSteps> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& value,
                               const c10::intrusive_ptr<ReversibleCapsule>& capsule,
                               at::TensorList arguments, at::TensorList leaves) {
    context->saved_data["steps"] = c10::IValue::make_capsule(capsule);
    context->saved_data["arguments"] = static_cast<int64_t>(arguments.size());
    auto kept = arguments.vec();
    kept.insert(kept.end(), leaves.begin(), leaves.end());
    context->save_for_backward(std::move(kept));
    return value.view_as(value);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& gradients) {
    const auto capsule = c10::static_intrusive_pointer_cast<ReversibleCapsule>(
        context->saved_data["steps"].toCapsule());
    require(!torch::GradMode::is_enabled(),
            "the reversible gradient cannot be differentiated again (create_graph): use the "
            "Unrolled gradient");
    require(capsule->z.defined(), "{}", kBackwardTwice);
    const auto saved = context->get_saved_variables();
    const auto split = saved.begin() + context->saved_data["arguments"].toInt();
    const Tensors leaves(split, saved.end());
    require_no_hooks(leaves, kWhereNoHooks);
    auto of_inputs = walk_back(*capsule, gradients[0], {saved.begin(), split}, leaves);
    of_inputs.insert(of_inputs.begin(), kFixedInputs, torch::Tensor());
    if (!torch::autograd::get_current_graph_task_keep_graph()) {
      capsule->y.reset();
      capsule->z.reset();
    }
    return of_inputs;
  }

  static constexpr const char* kWhereNoHooks = "with the reversible gradient";

 private:
  static constexpr size_t kFixedInputs = 2;  // before arguments and leaves

  static Tensors walk_back(const ReversibleCapsule& capsule, const torch::Tensor& g,
                           const Tensors& arguments, const Tensors& leaves) {
    const AutocastAs as_before(capsule.autocast);
    const double beta = capsule.how.beta;
    WayBack f(capsule.f, capsule.start.scalar_type(), arguments, leaves);
    auto y = capsule.y, z = capsule.z;
    auto a = torch::zeros_like(y), b = g.to(torch::kDouble);
    for (int64_t k = 0; k < capsule.how.steps; ++k) {
      const auto [f_of_y, b_product] = f(y, beta * b);
      z = undone(z, f_of_y, beta);
      a = a + b_product;
      b = (1.0 - beta) * b;
      const auto [f_of_z, a_product] = f(z, beta * a);
      y = undone(y, f_of_z, beta);
      b = b + a_product;
      a = (1.0 - beta) * a;
    }
    capsule.walked_back(distance_report(y, z, capsule));
    return f.sums();
  }
};

}  // namespace

ReversibleSteps reversible_steps(ExplicitMap f, const std::vector<torch::Tensor>& arguments,
                                 const torch::Tensor& start, const Reversible& how,
                                 WalkedBack walked_back) {
  const auto type = start.scalar_type();
  auto capsule = c10::make_intrusive<ReversibleCapsule>(std::move(f), start.detach(), how,
                                                        std::move(walked_back));
  const AutocastAs unremembered(capsule->autocast);
  Tensors at{start};
  for (const auto& argument : arguments) at.push_back(argument.detach());
  const auto f_at = [&](const torch::Tensor& z) {
    check_interruption();
    at[0] = z.to(type);
    return capsule->f(at);
  };
  auto y = capsule->start.to(torch::kDouble), z = y;
  {
    const torch::NoGradGuard constant;
    for (int64_t k = 0; k < how.steps; ++k) {
      y = blended(y, f_at(z), how.beta);
      z = blended(z, f_at(y), how.beta);
    }
  }
  // One more evaluation, on a tape that shows which leaves it leads to.
  for (size_t i = 1; i < at.size(); ++i) at[i].requires_grad_(torch::GradMode::is_enabled());
  const auto begin = graph_begins();
  const auto f_of_z = f_at(z);
  auto value = z.to(type);
  if (!f_of_z.requires_grad()) return {.z = value, .f_of_z = f_of_z.detach()};
  const auto leaves = graph_leaves(f_of_z, {at.begin() + 1, at.end()}, begin);
  require_no_hooks(leaves, UndoneSteps::kWhereNoHooks);
  capsule->y = y;
  capsule->z = z;
  return {
      .z = UndoneSteps::apply(value, capsule, at::TensorList(arguments), at::TensorList(leaves)),
      .f_of_z = f_of_z.detach()};
}

}  // namespace deq

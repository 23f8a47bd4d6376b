#include "deq/nn/mixing_loss.h"

#include <torch/autograd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/require.h"
#include "deq/core/linearization.h"
#include "deq/solvers/mixing_rule.h"
#include "solvers/anderson_weights.h"
#include "solvers/evaluate.h"

// With e the evaluations, zₖ the iterate that the k-th has led to, α̂ its least-squares weights, and
// means over the batch:
//
//   ℓ = Σ k ‖zₖ − z*‖/‖z₀ − z*‖ / Σ k  +  closeness · Σ ‖αₖ − α̂ₖ‖² / (e − 1),   k = 1 … e − 1
//
// The steps are those of solvers/anderson.cpp, in operations that autograd knows.

namespace deq {
namespace {

struct LinearizationCapsule : torch::CustomClassHolder {
  explicit LinearizationCapsule(Linearization point) : at(std::move(point)) {}
  Linearization at;
};

/// z in, f(z) out; backward: u in, uJ out. What f has captured gets no gradient.
struct FrozenStep : torch::autograd::Function<FrozenStep> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor&,
                               const torch::Tensor& value,
                               const c10::intrusive_ptr<LinearizationCapsule>& capsule) {
    context->saved_data["step"] = c10::IValue::make_capsule(capsule);
    return value.view_as(value);
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    require(!torch::GradMode::is_enabled(),
            "mixing_loss cannot be differentiated twice (create_graph)");
    const auto capsule = c10::static_intrusive_pointer_cast<LinearizationCapsule>(
        context->saved_data["step"].toCapsule());
    return {capsule->at.vjp(gradients[0].contiguous()), {}, {}};
  }
};

torch::Tensor frozen_step(const Map& f, const torch::Tensor& z) {
  const auto at = z.detach().requires_grad_();
  const auto image = evaluate({.f = f}, at);
  return FrozenStep::apply(z, image.detach(),
                           c10::make_intrusive<LinearizationCapsule>(Linearization(at, image)));
}

/// As anderson_weights of solvers/anderson_weights.h, which raises the ridge only where it must.
torch::Tensor least_squares(const torch::Tensor& gram, const Anderson& solver) {
  const auto mean = gram.diagonal(0, 1, 2).mean(1).view({-1, 1, 1});
  // Where all residuals are 0, only the ridge is left. Divided by less than 1, its gradient would
  // overflow.
  const auto mean_diagonal = torch::where(mean > 0, mean, torch::ones_like(mean));
  const auto unit = torch::eye(gram.size(1), gram.options());
  const bool relative = solver.ridge_scale == RidgeScale::Relative;
  const auto scale = relative ? torch::ones_like(mean_diagonal) : mean_diagonal.reciprocal();
  const auto ridge = (solver.ridge * scale).clamp_min(kLeastRidge) * unit;
  const auto ones = torch::ones({gram.size(0), gram.size(1)}, gram.options());
  const auto alpha =
      torch::linalg_solve(gram / mean_diagonal + ridge, ones.unsqueeze(2)).squeeze(2);
  return alpha / alpha.sum(1, /*keepdim=*/true);
}

/// Σ alphaᵢ rowsᵢ.
torch::Tensor combined(const torch::Tensor& alpha, const std::vector<torch::Tensor>& rows) {
  const auto stacked = torch::stack(rows, 1);
  return (alpha.to(stacked.dtype()).unsqueeze(2) * stacked).sum(1);
}

void require_trainable(const torch::Tensor& z0, const torch::Tensor& z_star, const Anderson& solver,
                       double closeness) {
  validate(SolverOptions{solver});
  require(solver.mixing != nullptr, "mixing_loss: the solver has no mixing that could be trained");
  require(solver.max_evals >= 2,
          "mixing_loss: max_evals = {}, must be ≥ 2: the first evaluation is that of z0",
          solver.max_evals);
  require(closeness >= 0, "mixing_loss: closeness = {:g}, must be ≥ 0", closeness);
  require(z0.dim() == 2 && z0.numel() > 0,
          "mixing_loss: z0 must be a slab [B, D] with B, D ≥ 1, is {}", z0.sizes());
  require(z0.sizes() == z_star.sizes() && z0.dtype() == z_star.dtype(),
          "mixing_loss: z0 is {} of type {}, but z* is {} of type {}", z0.sizes(), z0.scalar_type(),
          z_star.sizes(), z_star.scalar_type());
}

}  // namespace

torch::Tensor mixing_loss(const Map& f, const torch::Tensor& z0, const torch::Tensor& z_star,
                          const Anderson& solver, double closeness) {
  require_trainable(z0, z_star, solver, closeness);
  const torch::AutoGradMode differentiable(true);
  const auto goal = z_star.detach();
  const auto distance = [&goal](const torch::Tensor& z) {
    return torch::linalg_vector_norm(z - goal, 2, at::IntArrayRef{1}, /*keepdim=*/false,
                                     torch::kDouble);
  };
  auto z = z0.detach();
  const auto from_start = distance(z);
  const auto unit = torch::where(from_start > 0, from_start, torch::ones_like(from_start));
  std::vector<torch::Tensor> images, residuals;  // the newest first
  torch::Tensor distances = torch::zeros({}, unit.options()), deviations = distances;
  double ranks = 0;
  for (int64_t k = 1; k < solver.max_evals; ++k) {
    images.insert(images.begin(), frozen_step(f, z));
    residuals.insert(residuals.begin(), images.front() - z);
    const auto n = std::min(k, solver.memory), unused = solver.memory - n;
    images.resize(static_cast<size_t>(n));
    residuals.resize(static_cast<size_t>(n));
    const auto g = torch::stack(residuals, 1).to(torch::kDouble);
    const auto gram = g.bmm(g.transpose(1, 2));
    const auto plain = least_squares(gram, solver);
    const auto chosen = solver.mixing->weights(
        {.gram = torch::constant_pad_nd(gram, {0, unused, 0, unused}),
         .length = torch::full({z.size(0)}, n, gram.options().dtype(torch::kLong)),
         .alpha = torch::constant_pad_nd(plain, {0, unused}),
         .beta = solver.beta,
         .step = k});
    const auto alpha = chosen.alpha.narrow(1, 0, n);
    const auto further = (chosen.beta - 1).to(z.dtype()).unsqueeze(1);
    z = combined(alpha, images) + further * combined(alpha, residuals);
    const auto rank = static_cast<double>(k);
    distances = distances + rank * (distance(z) / unit).mean();
    deviations = deviations + (alpha - plain).square().sum(1).mean();
    ranks += rank;
  }
  return distances / ranks + closeness * deviations / static_cast<double>(solver.max_evals - 1);
}

}  // namespace deq

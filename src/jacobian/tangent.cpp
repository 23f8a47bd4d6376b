#include "deq/jacobian/tangent.h"

#include <torch/autograd.h>

#include <utility>

#include "core/hooks.h"
#include "core/jacobian_products.h"
#include "core/require.h"
#include "deq/solvers/solver.h"

namespace deq {
namespace {

/// v ↦ ∂f/∂t v for several t. Since uᵀ ∂f/∂t is linear in u, its own gradient by u is that product.
class Pushed {
 public:
  Pushed(const torch::Tensor& f, const std::vector<torch::Tensor>& variables)
      : u_(torch::zeros_like(f).requires_grad_()),
        pulled_(torch::autograd::grad({f}, variables, {u_}, /*retain_graph=*/true,
                                      /*create_graph=*/true, /*allow_unused=*/true)) {}

  torch::Tensor by(size_t variable, const torch::Tensor& v) const {
    const auto& pulled = pulled_[variable];
    if (!pulled.defined() || !pulled.requires_grad()) return torch::zeros_like(u_);
    const auto product = torch::autograd::grad({pulled}, {u_}, {v}, /*retain_graph=*/true,
                                               /*create_graph=*/false, /*allow_unused=*/true)[0];
    return product.defined() ? product : torch::zeros_like(u_);
  }

 private:
  torch::Tensor u_;
  std::vector<torch::Tensor> pulled_;
};

void require_move(const Move& move) {
  require(move.of.defined() && move.of.requires_grad(),
          "tangent: what moves must be a tensor that requires grad");
  require(move.along.defined() && move.along.sizes() == move.of.sizes(),
          "tangent: a tensor of shape {} moves along one of the same shape, not {}",
          move.of.sizes(), move.along.defined() ? move.along.sizes() : at::IntArrayRef());
  require(!has_hooks(move.of),
          "tangent: a tensor that moves has or had a hook, which would run in between");
}

}  // namespace

Tangent tangent(const Linearization& at, const std::vector<Move>& moves,
                const SolverOptions& solver) {
  const torch::AutoGradMode grad(true);
  products_of(at).require_derivatives();
  const auto f = products_of(at).f();
  require(f.requires_grad(),
          "tangent: this equilibrium holds no graph of f; it was replayed (use Replay::Off) or "
          "nothing in it requires grad");
  std::vector<torch::Tensor> variables{at.z()};
  for (const auto& move : moves) {
    require_move(move);
    variables.push_back(move.of);
  }
  const Pushed pushed(f, variables);
  auto source = torch::zeros_like(at.z());
  for (size_t i = 0; i < moves.size(); ++i) source = source + pushed.by(i + 1, moves[i].along);
  const torch::NoGradGuard no_graph;
  const Problem problem{.f = [&](const torch::Tensor& v) { return pushed.by(0, v) + source; },
                        .f_of_start = source};
  auto solution = Solver(solver).solve(problem, torch::zeros_like(source));
  return {.along = std::move(solution.z), .report = std::move(solution.report)};
}

}  // namespace deq

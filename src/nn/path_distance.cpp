#include "deq/nn/path_distance.h"

#include <cmath>

// With n = ‖z*‖ and D numbers in a state, the other solve begins at ε·n/√D for normal ε, which has
// z*'s length but no direction of its own.

namespace deq {

// NOLINTNEXTLINE(performance-unnecessary-value-param): generators go by value, as in torch's API.
torch::Tensor path_distance(const Equilibrated& equilibrium, const Solver& solver,
                            std::optional<at::Generator> generator) {
  const torch::NoGradGuard no_grad;
  const auto layout = StateLayout::of(equilibrium.state);
  const auto z = layout.pack(equilibrium.state).detach();
  const auto device = generator ? generator->device() : z.device();
  const auto noise = torch::randn(z.sizes(), generator, z.options().device(device)).to(z.device());
  const auto lengths = torch::linalg_vector_norm(z, 2, at::IntArrayRef{1}, /*keepdim=*/true);
  const auto scale = torch::where(lengths > 0, lengths, torch::ones_like(lengths));
  const auto start = noise * (scale / std::sqrt(static_cast<double>(layout.dim())));
  const auto other = equilibrium.solved_from(layout.unpack(start), solver).z;
  return torch::linalg_vector_norm(other - z, 2, at::IntArrayRef{1}) / scale.squeeze(1);
}

}  // namespace deq

#include "deq/nn/start_distance.h"

namespace deq {
namespace {

torch::Tensor squared_distance(const Equilibrated& equilibrium, const State& z) {
  const auto layout = StateLayout::of(equilibrium.state);
  const auto found = layout.pack(equilibrium.state).detach();
  const auto size = found.square().sum(1);
  const auto scale = torch::where(size > 0, size, torch::ones_like(size));
  return (layout.pack(z) - found).square().sum(1) / scale;
}

}  // namespace

torch::Tensor start_distance(const Equilibrated& equilibrium) {
  return squared_distance(equilibrium, equilibrium.start());
}

torch::Tensor step_distance(const Equilibrated& equilibrium, const State& from) {
  const auto z = from.empty() ? equilibrium.start() : from;
  return squared_distance(equilibrium, equilibrium.stepped_from(z));
}

}  // namespace deq

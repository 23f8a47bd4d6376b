#include "replay/unrolled_steps.h"

#include <utility>

namespace deq {

UnrolledSteps unrolled_steps(const BoundStep& f, torch::Tensor z, const Unrolled& how) {
  torch::Tensor before;
  for (int64_t k = 0; k < how.steps; ++k) {
    const torch::AutoGradMode grad(torch::GradMode::is_enabled() && k >= how.without_gradient());
    before = std::exchange(z, f(z));
  }
  const torch::NoGradGuard constant;
  return {.z = z, .neighbour = how.measured ? f(z.detach()) : before.detach()};
}

UnrolledSteps ReplayedSteps::operator()(const std::shared_ptr<Cell>& cell, const Inputs& inputs,
                                        const State& z0, const Unrolled& how, Replay replay,
                                        const ReplayKey& key) {
  std::shared_ptr<ReplayedFunction> function;
  {
    const std::lock_guard lock(mutex_);
    auto& known = by_steps_[{how.steps, how.without_gradient(), how.measured}];
    if (!known) {
      const auto evaluate = [cell, how, parts = static_cast<std::ptrdiff_t>(z0.size())](
                                const ReplayedFunction::Tensors& given) {
        const State start(given.begin(), given.begin() + parts);
        const auto layout = StateLayout::of(start);
        const BoundStep f{.cell = cell,
                          .layout = layout,
                          .context = cell->prepare(Inputs(given.begin() + parts, given.end()))};
        const auto result = unrolled_steps(f, layout.pack(start), how);
        return torch::stack({result.z, result.neighbour});
      };
      known = std::make_shared<ReplayedFunction>(
          std::vector<std::shared_ptr<torch::nn::Module>>{cell}, evaluate);
    }
    function = known;
  }
  ReplayedFunction::Tensors given;
  for (const auto& part : z0) given.push_back(part.detach());
  given.insert(given.end(), inputs.begin(), inputs.end());
  bool replayed = false;
  const auto both = (*function)(given, replay, key, &replayed);
  return {.z = both[0], .neighbour = both[1].detach(), .replayed = replayed};
}

void ReplayedSteps::forget() {
  const std::lock_guard lock(mutex_);
  by_steps_.clear();
}

}  // namespace deq

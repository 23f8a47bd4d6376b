#include "deq/models/mdeq/mdeq.h"

#include "core/require.h"
#include "models/mdeq/head.h"

namespace deq::models {

// NOLINTBEGIN(performance-unnecessary-value-param): generators go by value, as in torch's API.
MdeqClassifierImpl::MdeqClassifierImpl(const MdeqOptions& options,
                                       std::optional<at::Generator> generator)
    : MdeqTrunk(options, generator), head_(std::make_shared<MdeqHead>(*this, options, generator)) {}
// NOLINTEND(performance-unnecessary-value-param)

MdeqOutput MdeqClassifierImpl::forward(const torch::Tensor& images, const EquilibriumPlan& plan,
                                       const State& start) {
  const auto replay = plan.options().replay;
  auto equilibrium = equilibrate(inject(images, replay), plan, start);
  auto logits = classify(equilibrium.state, replay);
  return {.logits = std::move(logits), .equilibrium = std::move(equilibrium)};
}

torch::Tensor MdeqClassifierImpl::classify(const State& z, Replay replay) {
  require_scales(z);
  const auto& coarsest = z.back();
  require(!is_training() || coarsest.numel() > coarsest.size(1),
          "mdeq: batch norm in train mode needs more than one value per channel, and the coarsest "
          "scale is {}",
          coarsest.sizes());
  return head_->forward(z, replay);
}

}  // namespace deq::models

#include "deq/models/mdeq.h"

#include "deq/core/error.h"
#include "models/mdeq_head.h"

namespace deq {

// NOLINTBEGIN(performance-unnecessary-value-param): generators go by value, as in torch's API.
MdeqClassifierImpl::MdeqClassifierImpl(const MdeqOptions& options,
                                       std::optional<at::Generator> generator)
    : MdeqTrunk(options, generator), head_(std::make_shared<MdeqHead>(*this, options, generator)) {}
// NOLINTEND(performance-unnecessary-value-param)

MdeqOutput MdeqClassifierImpl::forward(const torch::Tensor& images, const EquilibriumPlan& plan) {
  auto equilibrium = equilibrate(inject(images), plan);
  auto logits = classify(equilibrium.state);
  return {.logits = std::move(logits), .equilibrium = std::move(equilibrium)};
}

torch::Tensor MdeqClassifierImpl::classify(const State& z) {
  require_scales(z);
  const auto& coarsest = z.back();
  require(!is_training() || coarsest.numel() > coarsest.size(1),
          "mdeq: batch norm in train mode needs more than one value a channel, and the coarsest "
          "scale is ",
          coarsest.sizes());
  return head_->forward(z);
}

}  // namespace deq

#include "replay/untouched.h"

#include <ATen/Context.h>

#include <mutex>

#include "replay/graph_work.h"

namespace deq {

RandomState::RandomState(const torch::Device& device)
    : generator_(at::globalContext().defaultGenerator(device)) {
  const std::lock_guard lock(generator_.mutex());
  state_ = generator_.get_state();
}

void RandomState::restore() const {
  auto generator = generator_;
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state_);
}

Untouched::Untouched(const torch::Device& device, const std::vector<torch::Tensor>& buffers)
    : random_(device), buffers_(buffers) {
  const torch::NoGradGuard no_grad;
  for (const auto& buffer : buffers_) before_.push_back(buffer.clone());
}

Untouched::~Untouched() {
  for (size_t i = 0; i < buffers_.size(); ++i) copy_into(buffers_[i], before_[i]);
  if (restores_random_) random_.restore();
}

}  // namespace deq

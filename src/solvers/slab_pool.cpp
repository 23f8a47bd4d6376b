#include <algorithm>

#include "deq/solvers/method.h"

namespace deq {

void SlabPool::reset_like(const torch::Tensor& like) {
  const auto options = torch::TensorOptions().dtype(like.dtype()).device(like.device());
  const bool same = like.sizes() == c10::IntArrayRef(sizes_) &&
                    options.dtype() == options_.dtype() && options.device() == options_.device();
  if (same) return;
  slabs_.clear();
  sizes_ = like.sizes().vec();
  options_ = options;
}

torch::Tensor SlabPool::take() {
  // On a GPU torch keeps what is free for whoever needs it next, the adjoint solve among them.
  if (options_.device().is_cuda()) return torch::empty(sizes_, options_);
  for (const auto& slab : slabs_) {
    // A view made by f refers to the storage, not to this tensor: both counts matter.
    if (slab.use_count() == 1 && slab.storage().use_count() == 1) return slab;
  }
  // The next solve may be outside of inference mode, whose tensors cannot be written there.
  const c10::InferenceMode ordinary_tensors(false);
  slabs_.push_back(torch::empty(sizes_, options_));
  return slabs_.back();
}

void SlabPool::give_away(const torch::Tensor& slab) {
  std::erase_if(slabs_, [&slab](const torch::Tensor& own) { return own.is_same(slab); });
}

}  // namespace deq

#include "kernels/common/block_cache.h"

#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace deq::kernels {
namespace {

/// Blocks of memory that are free for another tensor of their size.
class BlockCache {
 public:
  void* take(size_t bytes) {
    const std::scoped_lock lock(mutex_);
    in_use_ += bytes;
    most_in_use_ = std::max(most_in_use_, in_use_);
    if (const auto found = free_.find(bytes); found != free_.end()) {
      void* const block = found->second;
      free_.erase(found);
      kept_ -= bytes;
      return block;
    }
    shrink_to(most_in_use_ - in_use_);
    constexpr size_t kAlignment = 64;
    void* const block =
        std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }

  void give_back(void* block, size_t bytes) {
    const std::scoped_lock lock(mutex_);
    in_use_ -= bytes;
    free_.emplace(bytes, block);
    kept_ += bytes;
    shrink_to(most_in_use_ - in_use_);
  }

 private:
  /// Smallest blocks go first: they are the cheapest to make anew.
  void shrink_to(size_t bytes) {
    while (kept_ > bytes) {
      const auto smallest = free_.begin();
      kept_ -= smallest->first;
      std::free(smallest->second);
      free_.erase(smallest);
    }
  }

  std::mutex mutex_;
  std::multimap<size_t, void*> free_;
  size_t kept_ = 0, in_use_ = 0, most_in_use_ = 0;
};

BlockCache& block_cache() {
  // Never destroyed: tensors may outlive whatever is destroyed at exit.
  static auto* const kCache = new BlockCache;
  return *kCache;
}

}  // namespace

at::Tensor empty_reused(at::IntArrayRef sizes, at::IntArrayRef strides,
                        const at::TensorOptions& options) {
  constexpr size_t kWorthKeeping = size_t{1} << 16;
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) *
                     c10::elementSize(c10::typeMetaToScalarType(options.dtype()));
  if (bytes < kWorthKeeping) return at::empty_strided(sizes, strides, options);
  const auto give_back = [bytes](void* block) { block_cache().give_back(block, bytes); };
  return at::from_blob(block_cache().take(bytes), sizes, strides, give_back, options);
}

at::Tensor empty_reused(at::IntArrayRef sizes, const at::TensorOptions& options) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return empty_reused(sizes, strides, options);
}

}  // namespace deq::kernels

#include "kernels/images.h"

#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

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

at::Tensor dense_pixels(const at::Tensor& x) {
  const bool dense =
      x.stride(1) == 1 && x.stride(3) == x.size(1) && x.stride(2) == x.size(3) * x.size(1);
  // Not contiguous(ChannelsLast), which trusts strides that are ambiguous where a size is 1.
  return dense ? x : x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
}

at::Tensor empty_images(at::IntArrayRef sizes, const at::TensorOptions& options) {
  constexpr size_t kWorthKeeping = size_t{1} << 16;
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) *
                     c10::elementSize(c10::typeMetaToScalarType(options.dtype()));
  if (bytes < kWorthKeeping) return at::empty(sizes, options, at::MemoryFormat::ChannelsLast);
  const auto channels = sizes[1], row = sizes[3] * channels;
  const std::vector<int64_t> strides{sizes[2] * row, 1, row, channels};
  const auto give_back = [bytes](void* block) { block_cache().give_back(block, bytes); };
  return at::from_blob(block_cache().take(bytes), sizes, strides, give_back, options);
}

}  // namespace deq::kernels

#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "core/jacobian_products.h"
#include "core/require.h"

namespace deq {

/// A recording in the hands of one pass. It goes back when every part of a graph that needs it has
/// been differentiated for the last time or is gone, even while the pass's result still lives.
template <class Recorded>
class Loan : public std::enable_shared_from_this<Loan<Recorded>> {
 public:
  explicit Loan(std::shared_ptr<Recorded> recorded) : recorded_(std::move(recorded)) {}

  /// Throws once it has gone back.
  std::shared_ptr<Recorded> get() const {
    const std::lock_guard lock(mutex_);
    require(recorded_ != nullptr, "{}", kUsedAfterBackward);
    return recorded_;
  }

  /// For a part of a graph, which needs it as long as this lives.
  std::shared_ptr<Recorded> hold() {
    auto recorded = get();
    {
      const std::lock_guard lock(mutex_);
      ++holders_;
    }
    auto* const pointer = recorded.get();
    return {pointer,
            [loan = this->shared_from_this(), kept = std::move(recorded)](Recorded*) mutable {
              kept.reset();
              loan->release();
            }};
  }

 private:
  void release() {
    const std::lock_guard lock(mutex_);
    if (--holders_ == 0) recorded_.reset();
  }

  mutable std::mutex mutex_;
  std::shared_ptr<Recorded> recorded_;
  int holders_ = 0;
};

}  // namespace deq

#pragma once

#include "core/require.h"
#include "deq/core/cell.h"

namespace deq::models {

/// Reads a context in the order in which it was written: every part of the cell takes from it in
/// step() what it appended in prepare().
class MdeqPrepared {
 public:
  explicit MdeqPrepared(const Context& context) : context_(context) {}

  const torch::Tensor& next() {
    require(position_ < context_.size(), "mdeq: this context was not made by the cell's prepare()");
    return context_[position_++];
  }

 private:
  const Context& context_;
  size_t position_ = 0;
};

}  // namespace deq::models

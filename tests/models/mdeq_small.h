#pragma once

#include "deq/models/mdeq/options.h"

namespace deq::test {

/// A model of a few thousand parameters, without dropout.
inline models::MdeqOptions small_mdeq(size_t scales) {
  models::MdeqOptions options{
      .expansion = 2, .groups = 2, .dropout = 0, .final_channels = 6, .classes = 3};
  options.channels.clear();
  options.head_channels.clear();
  for (size_t i = 0; i < scales; ++i) {
    options.channels.push_back(4 + 2 * static_cast<int64_t>(i));
    options.head_channels.push_back(2 + static_cast<int64_t>(i));
  }
  return options;
}

}  // namespace deq::test

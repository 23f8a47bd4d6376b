#pragma once

#include <cstdint>

#include "deq/models/mdeq/options.h"

namespace deq::models {

struct MdeqSegmenterOptions {
  /// Stem, cell and classes; what it says of a classifier's head is not used.
  MdeqOptions mdeq{};
  int64_t final_kernel = 1;     ///< 1 or 3: of the convolution that gives the scores
  double norm_momentum = 0.01;  ///< 0 < … ≤ 1: a batch's weight in the batch norms' statistics
};

/// Throws Error naming the field, its value and the constraint.
void validate(const MdeqSegmenterOptions& options);

}  // namespace deq::models

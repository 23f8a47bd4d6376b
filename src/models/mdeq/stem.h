#pragma once

#include "deq/models/mdeq/options.h"
#include "models/mdeq/layers.h"

namespace deq::models {

/// Images to features of scale 0's size: at least two rows of conv₃ₓ₃ → BN → ReLU, of which the
/// first `downsample_times` halve height and width.
torch::nn::Sequential mdeq_stem(const MdeqOptions& options, const OptionalGenerator& generator);

}  // namespace deq::models

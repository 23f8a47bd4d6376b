#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "lab/data/images/image_normalisation.h"
#include "lab/data/images/image_window.h"

// A batch of windows cut out of images [N, 3, H, W], normalised: float32 [B, 3, size, size]. Both
// ways give the same bits.

namespace deq::lab {

/// On the CPU, one pass over what is read and written.
torch::Tensor cut_batch(const torch::Tensor& images, const int64_t* chosen,
                        const std::vector<Window>& windows, const Normalisation& normalisation);

/// On any device, by two gathers. `values` is the table of the normalisation, there.
torch::Tensor gather_batch(const torch::Tensor& images, const int64_t* chosen,
                           const std::vector<Window>& windows, const torch::Tensor& values);

}  // namespace deq::lab

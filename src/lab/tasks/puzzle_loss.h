#pragma once

#include <torch/types.h>

#include "deq/lab/settings/reasoning.h"

namespace deq::lab {

/// −log p of what stands in each cell [B, cells], of logits [B, cells, vocabulary]. With stablemax
/// p is s(x) / Σ s, where s(x) = x + 1 for x ≥ 0 and 1 / (1 − x) below: it grows as the logits do,
/// so that no digit is ever lost to rounding.
torch::Tensor cell_losses(const torch::Tensor& logits, const torch::Tensor& answers, CellLoss kind);

}  // namespace deq::lab

#pragma once

#include <vector>

#include "deq/solvers/method.h"

namespace deq {

/// Moves to z + λ·step, per sample with the largest λ of 1, ½, ¼, … that lowers its residual
/// (‖g‖ ≤ (1 − 10⁻⁴ λ)·‖g_old‖); after `kMaxHalvings` the last is taken as it is. Each try costs
/// one evaluation for the batch. Returns λ for every sample (0 for a frozen one).
std::vector<double> backtrack(Iteration& it, const torch::Tensor& step, torch::TensorList rows);

}  // namespace deq

#pragma once

#include <ATen/core/Tensor.h>

#include "solvers/decisions_samples.h"

// What is decided about every sample between two passes over the slabs, on the slabs' device and
// without the host: the samples are judged, and the small systems of their histories are solved.
// The CUDA kernels are the plugin's (decisions_cuda.cu); those for the CPU are plain loops, so that
// tests can follow every decision.
//
// The arrays of a solve are tensors on the device. `samples` and `histories` are bytes: an array of
// JudgedSample, AndersonHistory or BroydenHistory. All of them start as zeros.

namespace deq::decisions {

/// Whether this device has the kernels.
bool available(const at::Device& device);

/// Judges every active sample by the sums [B, ≥ 2] of an observation; fills `marks` (bytes of
/// kernels::Mark) and row evaluation − 1 of `residuals` [budget, B, 2], and leaves the number of
/// samples still active in `active`, one int32 in memory that the host can read when the work is
/// done.
void judge(const at::Tensor& sums, at::Tensor& samples, at::Tensor& marks, at::Tensor& residuals,
           at::Tensor& active, int64_t evaluation, const JudgingRules& rules);

/// Takes the newest of `steps` residuals into gram [B, memory, memory], and gives the coefficients
/// of the next iterate on every f, and for β ≠ 1 on every g.
void anderson(const at::Tensor& sums, const at::Tensor& samples, const at::Tensor& marks,
              at::Tensor& gram, at::Tensor& histories, at::Tensor& coefficients, int64_t steps,
              double beta, const AndersonRules& rules);

/// Takes the newest of `steps` steps into gram [B, triangle(capacity)], and gives the coefficients
/// of the next on [g, s₀, s₁, …]. `full`: the history is thrown away after this step.
void broyden(const at::Tensor& sums, const at::Tensor& marks, at::Tensor& gram,
             at::Tensor& histories, at::Tensor& coefficients, int64_t steps, bool full);

/// Takes the newest of `steps` steps into pairs [B, LimitedPairs::numbers(capacity)], drops the
/// oldest where that is wanted, and gives the weights of the newest u (on [g, g before, s, u₀, …])
/// and of the next step (on [g, u₀, …, the newest u]). `skipped` counts breakdowns, [B] of int64.
void limited_broyden(const at::Tensor& sums, const at::Tensor& marks, at::Tensor& pairs,
                     at::Tensor& skipped, at::Tensor& update_weights, at::Tensor& step_weights,
                     int64_t capacity, int64_t steps, bool drop);

}  // namespace deq::decisions

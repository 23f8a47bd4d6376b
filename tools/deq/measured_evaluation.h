#pragma once

#include <torch/types.h>

#include <vector>

#include "deq/train/run.h"

namespace deq::cli {

/// A run's metrics on its validation set, its stability there, and what the pass cost: seconds,
/// samples a second and, where the system can measure it, peak memory.
Metrics evaluate_measured(const LoadedRun& run, torch::Device device);

/// The same with the forward solver stopped after each of these budgets: a row for each, in their
/// order, that begins with it; of J nothing is measured with a budget of 1. A model without an
/// equilibrium gets one row, and a word on stderr.
std::vector<Metrics> evaluate_budgets(const LoadedRun& run, torch::Device device,
                                      const std::vector<int64_t>& budgets);

}  // namespace deq::cli

#pragma once

#include <torch/types.h>

#include <vector>

#include "deq/lab/runs/run.h"
#include "deq/lab/trained/load_run.h"

namespace deq::lab::cli {

/// A run's metrics on its validation set, its stability there, and what the pass cost: seconds,
/// samples per second and, where the system can measure it, peak memory.
Metrics evaluate_measured(const LoadedRun& run, torch::Device device);

/// The same with the forward solver stopped after each of these budgets: a row for each, in their
/// order, that begins with it; with a budget of 1 nothing is measured of J. A model without an
/// equilibrium gets one row, and a note on stderr.
std::vector<Metrics> evaluate_budgets(const LoadedRun& run, torch::Device device,
                                      const std::vector<int64_t>& budgets);

}  // namespace deq::lab::cli

#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>

#include "deq/lab/train/task.h"
#include "lab/train/step_plan.h"

namespace deq::lab {

/// What a training step adds to its loss so that solves become shorter.
class StartPenalties {
 public:
  /// Means over the samples, summed over the layers; undefined where the plan has no weight for it.
  struct Distances {
    torch::Tensor start{}, step{};
  };
  Distances of(const TaskPass& pass, const StepPlan& plan);

 private:
  /// Where the step begins; empty: at the start.
  State part_way(const Equilibrated& equilibrium, const StepPlan& plan);

  std::map<int64_t, Solver> solvers_;  // by their budgets: they keep workspaces worth reusing
};

}  // namespace deq::lab

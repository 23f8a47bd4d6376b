#pragma once

#include <torch/types.h>

#include "deq/lab/train/task.h"
#include "lab/train/step_plan.h"

namespace deq::lab {

/// What a training step adds to its loss so that solves become shorter: means over the samples,
/// summed over the layers; undefined where the plan has no weight for it.
struct StartPenalties {
  torch::Tensor start{}, step{};
};
StartPenalties start_penalties(const TaskPass& pass, const StepPlan& plan);

}  // namespace deq::lab

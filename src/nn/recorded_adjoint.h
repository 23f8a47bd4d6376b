#pragma once

#include <memory>

#include "deq/adjoint/adjoint.h"
#include "nn/recorded_step.h"

namespace deq {

/// f around z*, as `recorded` has it after linearise(z*). It keeps the recorded step for itself.
/// The first differentiable product is replayed, those after it come from a graph of `step` itself.
Linearization recorded_linearization(const BoundStep& step, const torch::Tensor& z_star,
                                     std::shared_ptr<RecordedStep> recorded);

/// attach_adjoint for such a linearisation: backward sends u to the context and to the parameters.
torch::Tensor attach_recorded_adjoint(const BoundStep& step, const Linearization& at,
                                      std::shared_ptr<RecordedStep> recorded, AdjointRule rule,
                                      std::shared_ptr<Report> report);

}  // namespace deq

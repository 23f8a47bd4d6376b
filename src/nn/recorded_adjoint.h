#pragma once

#include <memory>

#include "deq/adjoint/adjoint.h"
#include "nn/recorded_step.h"

namespace deq {

/// f around z*, as `recorded` has it after linearise(z*), for the inputs it was loaded with. It
/// keeps the recorded step for itself.
Linearization recorded_linearization(const Inputs& inputs, const torch::Tensor& z_star,
                                     std::shared_ptr<RecordedStep> recorded);

/// attach_adjoint for such a linearisation: backward sends u to the inputs and to the parameters.
torch::Tensor attach_recorded_adjoint(const Inputs& inputs, const Linearization& at,
                                      std::shared_ptr<RecordedStep> recorded, AdjointRule rule,
                                      std::shared_ptr<Report> report);

}  // namespace deq

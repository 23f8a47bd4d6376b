#pragma once

#include <memory>

#include "deq/adjoint/adjoint.h"
#include "replay/loan.h"
#include "replay/recorded_step.h"

namespace deq {

using StepLoan = std::shared_ptr<Loan<RecordedStep>>;

/// f around z*, as the recorded step has it after linearise(z*), for the inputs it was loaded with.
Linearization recorded_linearization(const Inputs& inputs, const torch::Tensor& z_star,
                                     StepLoan loan);

/// attach_adjoint for such a linearisation: backward sends u to the inputs and to the parameters.
torch::Tensor attach_recorded_adjoint(const torch::Tensor& value, const Inputs& inputs,
                                      const Linearization& at, const StepLoan& loan,
                                      AdjointRule rule, std::shared_ptr<Report> report);

}  // namespace deq

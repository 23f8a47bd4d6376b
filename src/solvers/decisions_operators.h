#pragma once

#include <ATen/core/Tensor.h>

#include "solvers/decisions_samples.h"

// The operators' tensors and numbers as the arguments of decisions_samples.h: the same for the CPU
// and for the plugin.

namespace deq::decisions {

template <class Struct>
Struct* array_of(const at::Tensor& bytes) {
  return reinterpret_cast<Struct*>(bytes.data_ptr<uint8_t>());
}

inline JudgeArguments judge_arguments(const at::Tensor& sums, const at::Tensor& samples,
                                      const at::Tensor& marks, const at::Tensor& residuals,
                                      int64_t evaluation, double atol, double rtol,
                                      bool whole_batch, int64_t stagnation_window,
                                      double divergence_factor, bool start_is_candidate) {
  const int64_t batch = sums.size(0);
  return {sums.const_data_ptr<double>(),
          batch,
          sums.size(1),
          array_of<JudgedSample>(samples),
          marks.data_ptr<uint8_t>(),
          residuals.data_ptr<double>() + (evaluation - 1) * 2 * batch,
          evaluation,
          {{atol, rtol, whole_batch ? NormScope::WholeBatch : NormScope::PerSample},
           {static_cast<int>(stagnation_window), divergence_factor},
           start_is_candidate}};
}

inline AndersonArguments anderson_arguments(const at::Tensor& sums, const at::Tensor& samples,
                                            const at::Tensor& marks, const at::Tensor& gram,
                                            const at::Tensor& histories,
                                            const at::Tensor& coefficients, int64_t steps,
                                            double beta, double ridge, bool relative_ridge,
                                            double restart_factor) {
  return {sums.const_data_ptr<double>(),
          sums.size(0),
          sums.size(1),
          array_of<JudgedSample>(samples),
          marks.const_data_ptr<uint8_t>(),
          gram.data_ptr<double>(),
          array_of<AndersonHistory>(histories),
          coefficients.data_ptr<double>(),
          steps,
          beta,
          {gram.size(1), ridge, relative_ridge, restart_factor}};
}

inline BroydenArguments broyden_arguments(const at::Tensor& sums, const at::Tensor& marks,
                                          const at::Tensor& gram, const at::Tensor& histories,
                                          const at::Tensor& coefficients, int64_t steps,
                                          bool full) {
  return {sums.const_data_ptr<double>(),
          sums.size(0),
          sums.size(1),
          marks.const_data_ptr<uint8_t>(),
          gram.data_ptr<double>(),
          gram.size(1),
          array_of<BroydenHistory>(histories),
          coefficients.data_ptr<double>(),
          steps,
          full};
}

inline LimitedArguments limited_arguments(const at::Tensor& sums, const at::Tensor& marks,
                                          const at::Tensor& pairs, const at::Tensor& skipped,
                                          const at::Tensor& update_weights,
                                          const at::Tensor& step_weights, int64_t capacity,
                                          int64_t steps, bool drop) {
  return {sums.const_data_ptr<double>(),
          sums.size(0),
          sums.size(1),
          marks.const_data_ptr<uint8_t>(),
          pairs.data_ptr<double>(),
          capacity,
          skipped.data_ptr<int64_t>(),
          update_weights.data_ptr<double>(),
          step_weights.data_ptr<double>(),
          steps,
          drop};
}

}  // namespace deq::decisions

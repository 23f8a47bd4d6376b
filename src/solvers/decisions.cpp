#include "solvers/decisions.h"

#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>

#include "kernels/common/operators.h"
#include "solvers/decisions_operators.h"

namespace deq::decisions {
namespace {

void judge_cpu(const at::Tensor& sums, at::Tensor& samples, at::Tensor& marks,
               at::Tensor& residuals, at::Tensor& active, int64_t evaluation, double atol,
               double rtol, bool whole_batch, int64_t stagnation_window, double divergence_factor,
               bool start_is_candidate) {
  const auto arguments =
      judge_arguments(sums, samples, marks, residuals, evaluation, atol, rtol, whole_batch,
                      stagnation_window, divergence_factor, start_is_candidate);
  int count = 0;
  for (int64_t b = 0; b < arguments.batch; ++b) count += judge_sample(arguments, b) ? 1 : 0;
  *active.data_ptr<int>() = count;
}

void anderson_cpu(const at::Tensor& sums, const at::Tensor& samples, const at::Tensor& marks,
                  at::Tensor& gram, at::Tensor& histories, at::Tensor& coefficients, int64_t steps,
                  double beta, double ridge, bool relative_ridge, double restart_factor) {
  const auto arguments = anderson_arguments(sums, samples, marks, gram, histories, coefficients,
                                            steps, beta, ridge, relative_ridge, restart_factor);
  double system[kMaxAndersonMemory * kMaxAndersonMemory], alpha[kMaxAndersonMemory];
  for (int64_t b = 0; b < arguments.batch; ++b) choose_anderson(arguments, b, system, alpha);
}

void broyden_cpu(const at::Tensor& sums, const at::Tensor& marks, at::Tensor& gram,
                 at::Tensor& histories, at::Tensor& coefficients, int64_t steps, bool full) {
  const auto arguments = broyden_arguments(sums, marks, gram, histories, coefficients, steps, full);
  double along[kMaxBroydenSteps];
  for (int64_t b = 0; b < arguments.batch; ++b) {
    double* own_gram = arguments.gram + b * arguments.gram_stride;
    if (steps > 0)
      std::copy_n(newest_gram_row(arguments, b), steps, own_gram + triangle(steps - 1));
    choose_broyden(arguments, b, own_gram, along, arguments.coefficients + b * (steps + 1));
  }
}

void limited_cpu(const at::Tensor& sums, const at::Tensor& marks, at::Tensor& pairs,
                 at::Tensor& skipped, at::Tensor& update_weights, at::Tensor& step_weights,
                 int64_t capacity, int64_t steps, bool drop) {
  const auto arguments = limited_arguments(sums, marks, pairs, skipped, update_weights,
                                           step_weights, capacity, steps, drop);
  for (int64_t b = 0; b < arguments.batch; ++b) choose_limited(arguments, b);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(deq, library) {
  library.def(
      "judge(Tensor sums, Tensor(a!) samples, Tensor(b!) marks, Tensor(c!) residuals, "
      "Tensor(d!) active, int evaluation, float atol, float rtol, bool whole_batch, "
      "int stagnation_window, float divergence_factor, bool start_is_candidate) -> ()");
  library.def(
      "anderson_weights(Tensor sums, Tensor samples, Tensor marks, Tensor(a!) gram, "
      "Tensor(b!) histories, Tensor(c!) coefficients, int steps, float beta, float ridge, "
      "bool relative_ridge, float restart_factor) -> ()");
  library.def(
      "broyden_direction(Tensor sums, Tensor marks, Tensor(a!) gram, Tensor(b!) histories, "
      "Tensor(c!) coefficients, int steps, bool full) -> ()");
  library.def(
      "limited_broyden_weights(Tensor sums, Tensor marks, Tensor(a!) pairs, Tensor(b!) skipped, "
      "Tensor(c!) update_weights, Tensor(d!) step_weights, int capacity, int steps, bool drop) -> "
      "()");
}

TORCH_LIBRARY_IMPL(deq, CPU, library) {
  library.impl("judge", &judge_cpu);
  library.impl("anderson_weights", &anderson_cpu);
  library.impl("broyden_direction", &broyden_cpu);
  library.impl("limited_broyden_weights", &limited_cpu);
}

bool available(const at::Device& device) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("deq::judge", "");
  return (device.is_cpu() && op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) ||
         (device.is_cuda() && op.hasKernelForDispatchKey(c10::DispatchKey::CUDA));
}

void judge(const at::Tensor& sums, at::Tensor& samples, at::Tensor& marks, at::Tensor& residuals,
           at::Tensor& active, int64_t evaluation, const JudgingRules& rules) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = kernels::find_operator<decltype(judge_cpu)>("deq::judge");
  op.call(sums, samples, marks, residuals, active, evaluation, rules.tol.atol, rules.tol.rtol,
          rules.tol.scope == NormScope::WholeBatch, rules.guards.stagnation_window,
          rules.guards.divergence_factor, rules.start_is_candidate);
}

void anderson(const at::Tensor& sums, const at::Tensor& samples, const at::Tensor& marks,
              at::Tensor& gram, at::Tensor& histories, at::Tensor& coefficients, int64_t steps,
              double beta, const AndersonRules& rules) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = kernels::find_operator<decltype(anderson_cpu)>("deq::anderson_weights");
  op.call(sums, samples, marks, gram, histories, coefficients, steps, beta, rules.ridge,
          rules.relative_ridge, rules.restart_factor);
}

void broyden(const at::Tensor& sums, const at::Tensor& marks, at::Tensor& gram,
             at::Tensor& histories, at::Tensor& coefficients, int64_t steps, bool full) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = kernels::find_operator<decltype(broyden_cpu)>("deq::broyden_direction");
  op.call(sums, marks, gram, histories, coefficients, steps, full);
}

void limited_broyden(const at::Tensor& sums, const at::Tensor& marks, at::Tensor& pairs,
                     at::Tensor& skipped, at::Tensor& update_weights, at::Tensor& step_weights,
                     int64_t capacity, int64_t steps, bool drop) {
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op =
      kernels::find_operator<decltype(limited_cpu)>("deq::limited_broyden_weights");
  op.call(sums, marks, pairs, skipped, update_weights, step_weights, capacity, steps, drop);
}

}  // namespace deq::decisions

#pragma once

#include <functional>

#include "bench/arguments.h"
#include "bench/subject.h"
#include "deq/lab/train/optimiser.h"

namespace deq::lab::cli {

/// The passes of a subject, their times and their memory.
class Passes {
 public:
  Passes(Subject& subject, const BenchArguments& arguments);

  /// Without gradients, in eval mode.
  void infer(const EquilibriumPlan& how);
  /// A training step, with the Jacobian penalty where asked for.
  void train(const EquilibriumPlan& how, bool penalised = false);

  double inference_ms(const EquilibriumPlan& how);
  double step_ms(const EquilibriumPlan& how, bool penalised = false);
  double peak_mib(const std::function<void()>& work) const;

  /// What the operations of one evaluation of f read and write. A pass without gradients is
  /// linearised by an evaluation of its own, which no graph replays: that one is watched.
  double bytes_of_f(const EquilibriumPlan& how);

  const torch::Device& device() const { return device_; }

 private:
  Subject& subject_;
  const BenchArguments& arguments_;
  torch::Device device_;
  Optimiser optimiser_;
};

}  // namespace deq::lab::cli

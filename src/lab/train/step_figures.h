#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "deq/core/report.h"
#include "deq/lab/data/batches/batch.h"
#include "deq/lab/distributed/world.h"
#include "deq/lab/runs/metrics.h"
#include "deq/lab/train/task.h"

namespace deq::lab {

/// What one optimiser step looked like, as means over its parts and over the ranks: numbers in a
/// row, so that one reduction serves them all.
class StepFigures {
 public:
  enum Name : size_t {
    kLoss,
    kTaskLoss,
    kPenalty,
    kPenalised,  // 1 where there was a penalty
    kStartDistance,
    kStepDistance,
    kStarted,    // 1 where distances were penalised
    kSolved,     // 1 where the layer was not unrolled for the pretraining
    kForward,    // evaluations of the forward solves
    kPerSample,  // evaluations that a sample needed, on average
    kAdjoint,    // evaluations of the adjoint solves
    kResidual,   // of the forward solves, relative
    kAdjointResidual,
    kAdjointMeasured,  // the share of passes whose adjoint solve has a residual
    kStops,            // and one for every Status: shares of the samples
    kUnreadable = kStops + static_cast<size_t>(Status::NotRun) + 1,
    kInterrupted,  // a rank was asked to end
    kCount
  };

  double& operator[](size_t name) { return values_[name]; }
  double operator[](size_t name) const { return values_[name]; }

  /// Adds one pass that has been backpropagated through, with this weight.
  void add(const TaskPass& pass, double weight);

  /// Makes them means over the ranks, on every rank.
  void reduce(World& world, torch::Device device);

 private:
  std::array<double, kCount> values_{};
};

/// Steps since the last line of training metrics.
class StepWindow {
 public:
  void add(const StepFigures& figures);
  int64_t steps() const { return steps_; }
  /// The means; what was never measured is left out. Where some of the steps were solved, what is
  /// said of solves is the mean over these.
  Metrics means() const;

 private:
  int64_t steps_ = 0;
  StepFigures sums_, sums_of_solved_;
};

}  // namespace deq::lab

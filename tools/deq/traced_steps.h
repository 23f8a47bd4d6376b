#pragma once

#include <torch/types.h>

#include <string>

#include "deq/lab/train/trainer.h"
#include "trace.h"

namespace deq::lab::cli {

/// Traces a few steps of a training, after the first ones since the last that was unrolled: by then
/// all is recorded that will be replayed.
class TracedSteps {
 public:
  /// An empty path traces nothing. Of the first `unrolled` steps some or all are not solved.
  TracedSteps(const std::string& path, torch::Device device, int64_t unrolled)
      : trace_(path), device_(device), unrolled_(unrolled) {}

  void after(const StepNews& news);

  /// Whether a trace was asked for and the training ended before it was written.
  bool missing() const { return trace_.asked_for() && !written_; }

 private:
  Trace trace_;
  torch::Device device_;
  int64_t unrolled_;
  int64_t steps_ = 0;  // after these, of this call
  bool written_ = false;
};

}  // namespace deq::lab::cli

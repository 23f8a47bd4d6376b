#pragma once

#include <torch/types.h>

#include <string>

#include "deq/lab/train/trainer.h"
#include "trace.h"

namespace deq::lab::cli {

/// Traces a few steps of a training, after the first ones in which the layer is solved: by then all
/// is recorded that will be replayed.
class TracedSteps {
 public:
  /// An empty path traces nothing.
  TracedSteps(const std::string& path, torch::Device device) : trace_(path), device_(device) {}

  void after(const StepNews& news);

  /// Whether a trace was asked for and the training ended before it was written.
  bool missing() const { return trace_.asked_for() && !written_; }

 private:
  Trace trace_;
  torch::Device device_;
  int64_t steps_ = 0;  // after the pretraining, of this call
  bool written_ = false;
};

}  // namespace deq::lab::cli

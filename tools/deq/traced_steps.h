#pragma once

#include <torch/types.h>

#include <optional>
#include <string>

#include "deq/lab/train/trainer.h"
#include "trace.h"

namespace deq::lab::cli {

/// Traces a few steps of a training, after the first ones in which the layer is solved: by then all
/// is recorded that will be replayed.
class TracedSteps {
 public:
  /// An empty path traces nothing.
  TracedSteps(const std::string& path, torch::Device device);

  void after(const StepNews& news);

  /// Whether a trace was asked for and the training ended before it was written.
  bool missing() const { return trace_.has_value(); }

 private:
  std::optional<Trace> trace_;
  torch::Device device_;
  int64_t steps_ = 0;  // after the pretraining, of this call
};

}  // namespace deq::lab::cli

#include "traced_steps.h"

#include "bench/stopwatch.h"

namespace deq::lab::cli {
namespace {

constexpr int64_t kBefore = 60, kTraced = 4;

}  // namespace

void TracedSteps::after(const StepNews& news) {
  if (!missing() || news.step <= unrolled_) return;
  ++steps_;
  if (steps_ == kBefore) {
    wait_for(device_);
    trace_.begin(device_);
  } else if (steps_ == kBefore + kTraced) {
    wait_for(device_);
    trace_.write();
    written_ = true;
  }
}

}  // namespace deq::lab::cli

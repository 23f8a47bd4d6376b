#include "lab/train/memory.h"

#include <gtest/gtest.h>

namespace deq::lab {
namespace {

TEST(Memory, ThePeakCanBeMeasuredAnew) {
  constexpr int64_t kMib = 256;
  torch::ones({kMib << 20}, torch::kUInt8);
  const double before = peak_memory_mib(torch::kCPU);
  EXPECT_GT(before, kMib);
  if (!reset_peak_memory(torch::kCPU)) {
    // Not every system allows it; the peak then stays the process's.
    EXPECT_GE(peak_memory_mib(torch::kCPU), before);
    return;
  }
  const double after = peak_memory_mib(torch::kCPU);
  EXPECT_LT(after, before - kMib / 2.0);
  const auto held = torch::ones({kMib << 20}, torch::kUInt8);
  EXPECT_GT(peak_memory_mib(torch::kCPU), after + kMib / 2.0);
}

}  // namespace
}  // namespace deq::lab

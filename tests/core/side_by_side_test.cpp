#include "replay/side_by_side.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

// On a GPU the parts' streams are tested with the cells that use them (tests/cuda).

namespace deq {
namespace {

std::vector<size_t> order_of(size_t count) {
  std::vector<size_t> order;
  side_by_side(torch::kCPU, count, [&](size_t part) { order.push_back(part); });
  return order;
}

TEST(SideBySide, CallsEveryPartInOrder) {
  EXPECT_TRUE(order_of(0).empty());
  EXPECT_EQ(order_of(3), (std::vector<size_t>{0, 1, 2}));
  const RecordingScope recording;
  EXPECT_EQ(order_of(3), (std::vector<size_t>{0, 1, 2}));
}

TEST(SideBySide, AFailureEndsIt) {
  size_t calls = 0;
  const auto fail = [&](size_t part) {
    ++calls;
    if (part == 1) throw std::runtime_error("no");
  };
  EXPECT_THROW(side_by_side(torch::kCPU, 4, fail), std::runtime_error);
  EXPECT_EQ(calls, 2U);
}

}  // namespace
}  // namespace deq

#include "lab/base/pace.h"

#include <gtest/gtest.h>

namespace deq::lab {
namespace {

using namespace std::chrono_literals;

const Pace::Time kStart{1h};

TEST(Pace, CountsFromTheFirstCall) {
  Pace pace;
  EXPECT_EQ(pace.rate(100, kStart), std::nullopt);
  EXPECT_EQ(pace.rate(100, kStart + 1s), std::nullopt);
  EXPECT_EQ(pace.rate(104, kStart + 2s), 2.0);
  EXPECT_EQ(pace.rate(99, kStart + 3s), std::nullopt);
}

TEST(Pace, LeavesPausesOut) {
  Pace pace;
  pace.pause(kStart - 20s);  // before anything is counted
  pace.go_on(kStart);
  pace.rate(0, kStart);
  pace.go_on(kStart + 1s);  // from no pause
  EXPECT_EQ(pace.rate(10, kStart + 1s), 10.0);
  pace.pause(kStart + 1s);
  pace.pause(kStart + 50s);  // the same one
  pace.go_on(kStart + 101s);
  EXPECT_EQ(pace.rate(20, kStart + 102s), 10.0);
  pace.pause(kStart + 102s);
  pace.go_on(kStart + 103s);
  EXPECT_EQ(pace.rate(45, kStart + 104s), 15.0);
}

}  // namespace
}  // namespace deq::lab

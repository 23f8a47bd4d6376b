#include "replay_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "support/collected_warnings.h"
#include "support/counted_recorders.h"

// What `deq doctor --device` says of replays. In float64: on the CPU the float32 kernels are called
// directly, where the stand-in for a GPU's graphs does not see them.

namespace deq::lab::cli {
namespace {

TEST(ReplayCheckTest, SaysSoWhereNothingIsReplayed) {
  EXPECT_EQ(check_replays(torch::kCPU), "not used on the CPU");
  EXPECT_THAT([] { replay_outcome(torch::kCUDA, {}, {}); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("nothing was recorded")));
}

TEST(ReplayCheckTest, SaysSoWhereReplaysAreAsEvaluated) {
  const test::CountedRecorders recorders;
  EXPECT_EQ(check_replays(torch::kCPU, torch::kFloat64), "as evaluated");
  EXPECT_GT(recorders.graphs(), 0);
}

TEST(ReplayCheckTest, FailsWhereARecordingIsRefused) {
  test::CountedRecorders recorders;
  recorders.fail_at(3);
  test::CollectedWarnings warnings;
  EXPECT_THAT(
      [] { check_replays(torch::kCPU, torch::kFloat64); },
      ::testing::ThrowsMessage<Error>(::testing::AllOf(
          ::testing::HasSubstr("refused to record"), ::testing::HasSubstr("this graph is to fail"),
          ::testing::Not(::testing::HasSubstr("\n")))));
  EXPECT_THAT(warnings.messages(), ::testing::Not(::testing::IsEmpty()));
}

}  // namespace
}  // namespace deq::lab::cli

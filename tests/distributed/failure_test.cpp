#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <csignal>

#include "deq/core/error.h"
#include "deq/lab/distributed/gradient_averager.h"
#include "distributed/ranks.h"

// A rank that is lost takes the others down, and they say which it was.

namespace deq::lab {
namespace {

using test::Outcome;
using test::run_ranks;
using test::Scenario;

/// Trains; rank `victim` does `deed` in the middle of the third backward pass, when the others have
/// begun to wait for it.
void train_until(const std::shared_ptr<World>& world, int64_t victim,
                 const std::function<void()>& deed) {
  torch::nn::Linear first(8, 8), last(8, 1);
  auto parameters = first->parameters();
  for (const auto& parameter : last->parameters()) parameters.push_back(parameter);
  GradientAverager averager(world, parameters, {.bucket_bytes = 64});
  for (int step = 0; step < 10; ++step) {
    const auto hidden = first(torch::ones({4, 8}));
    if (world->rank() == victim && step == 2) {
      hidden.register_hook([&](const torch::Tensor& /*gradient*/) { deed(); });
    }
    const auto loss = last(hidden).square().mean();
    averager.expect_backward(loss);
    loss.backward();
  }
}

const Scenario kKilled("killed",
                       [](const auto& world) { train_until(world, 1, [] { raise(SIGKILL); }); });
const Scenario kHostKilled("host-killed", [](const auto& world) {
  train_until(world, 0, [] { raise(SIGKILL); });
});
const Scenario kStopped(
    "stopped", [](const auto& world) { train_until(world, 1, [] { raise(SIGSTOP); }); },
    std::chrono::seconds(3));
const Scenario kThrows("throws", [](const auto& world) {
  train_until(world, 2, [] { throw Error("the shard train-003 is missing"); });
});
const Scenario kHostThrows("host-throws", [](const auto& world) {
  train_until(world, 0, [] { throw Error("no space left on device"); });
});
const Scenario kLeaves("leaves", [](const auto& world) {
  if (world->rank() == 1) return;
  world->barrier();
});
// What Gloo's write to the socket of a rank that was just killed comes to.
const Scenario kWritesToNobody("writes-to-nobody", [](const auto& world) {
  raise(SIGPIPE);
  world->barrier();
});

void expect_others_say(const std::vector<Outcome>& outcomes, size_t victim,
                       const std::string& sentence) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (rank == victim) continue;
    EXPECT_EQ(outcomes[rank].status, 1) << "rank " << rank;
    EXPECT_EQ(outcomes[rank].output, sentence + "\n") << "rank " << rank;
  }
}

TEST(Failure, OfARankThatIsKilled) {
  const auto outcomes = run_ranks(3, "killed");
  EXPECT_EQ(outcomes[1].status, 128 + SIGKILL);
  expect_others_say(outcomes, 1, "rank 1 of 3 is gone (no sign of life for 5 s)");
}

TEST(Failure, IsNotSpreadByABrokenPipe) {
  test::expect_success(2, "writes-to-nobody");
}

TEST(Failure, OfTheRankThatHostsTheStore) {
  const auto outcomes = run_ranks(3, "host-killed");
  EXPECT_EQ(outcomes[0].status, 128 + SIGKILL);
  expect_others_say(outcomes, 0, "rank 0 of 3 is gone, and with it the store that it hosts");
}

TEST(Failure, OfARankThatHangs) {
  const auto outcomes = run_ranks(3, "stopped");
  expect_others_say(outcomes, 1, "rank 1 of 3 is gone (no sign of life for 5 s)");
}

TEST(Failure, IsRepeatedInTheWordsOfTheRank) {
  const auto outcomes = run_ranks(3, "throws");
  EXPECT_EQ(outcomes[2].output, "the shard train-003 is missing\n");
  expect_others_say(outcomes, 2, "rank 2 of 3 failed: the shard train-003 is missing");
}

TEST(Failure, IsHeardBeforeTheHostLeaves) {
  const auto outcomes = run_ranks(3, "host-throws");
  EXPECT_EQ(outcomes[0].output, "no space left on device\n");
  expect_others_say(outcomes, 0, "rank 0 of 3 failed: no space left on device");
}

TEST(Failure, OfARankThatLeavesEarly) {
  const auto outcomes = run_ranks(2, "leaves");
  EXPECT_EQ(outcomes[1].status, 0);
  expect_others_say(outcomes, 1, "rank 1 of 2 left before the others did");
}

}  // namespace
}  // namespace deq::lab

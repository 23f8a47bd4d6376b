#include "deq/lab/distributed/world.h"

#include <fmt/ostream.h>
#include <gtest/gtest.h>

#include "core/require.h"
#include "distributed/ranks.h"

namespace deq::lab {
namespace {

using test::expect_success;
using test::run_ranks;
using test::Scenario;

const Scenario kExchange("exchange", [](const auto& world) {
  const auto n = world->size();
  const auto total = torch::full({3, 2}, static_cast<double>(world->rank() + 1));
  world->sum(total);
  require(torch::equal(total, torch::full({3, 2}, n * (n + 1) / 2.0)), "sum: {}",
          fmt::streamed(total));

  const auto numbers = torch::tensor({world->rank(), int64_t{1}});
  world->sum(numbers);
  require(torch::equal(numbers, torch::tensor({n * (n - 1) / 2, n})), "integers: {}",
          fmt::streamed(numbers));

  // A view that is not contiguous, of a tensor with a gradient.
  const auto whole = torch::zeros({4, 2}).requires_grad_();
  world->sum(whole.detach().fill_(1.0).select(1, 0));
  require(whole[0][0].template item<double>() == n && whole[0][1].template item<double>() == 1,
          "a view: {}", fmt::streamed(whole));

  const auto value = torch::full({5}, world->rank());
  world->broadcast(value, n - 1);
  require(torch::equal(value, torch::full({5}, n - 1)), "broadcast: {}", fmt::streamed(value));
  world->barrier();
  world->require_same("the text", "a\nb");
});

const Scenario kDifferent("different", [](const auto& world) {
  world->require_same("the seed", "7");
  world->require_same("the configuration",
                      "model = \"toy\"\nseed = " + std::to_string(world->rank() / 2) + "\n");
});

TEST(World, OneProcessAloneNeedsNothing) {
  const auto world = World::alone();
  const auto value = torch::ones({2});
  world->sum(value);
  world->broadcast(value);
  world->barrier();
  world->require_same("the text", "a");
  EXPECT_TRUE(torch::equal(value, torch::ones({2})));
  EXPECT_EQ(world->size(), 1);
  EXPECT_TRUE(world->is_main());
  EXPECT_EQ(World::join({}, torch::kCPU)->size(), 1);
}

TEST(World, RefusesARankThatCannotBe) {
  EXPECT_THROW(World::join({.rank = 2, .size = 2}, torch::kCPU), Error);
  EXPECT_THROW(World::join({.rank = 0, .size = 0}, torch::kCPU), Error);
  EXPECT_THROW(World::join({}, torch::kCPU, std::chrono::seconds(0)), Error);
  EXPECT_THROW(World::alone()->broadcast(torch::ones({1}), 1), Error);
}

TEST(World, TwoRanksExchange) {
  expect_success(2, "exchange");
}

TEST(World, FourRanksExchange) {
  expect_success(4, "exchange");
}

TEST(World, SaysWhichRanksAndWhichLineDiffer) {
  for (const auto& outcome : run_ranks(4, "different")) {
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.output,
              "the configuration must be the same on all ranks, and is another on ranks 2 and 3 "
              "of 4: line 2 is \"seed = 1\", on rank 0 \"seed = 0\"\n");
  }
}

TEST(World, SaysWhoDidNotCome) {
  try {
    World::join({.rank = 0, .size = 3, .address = "127.0.0.1", .port = 0}, torch::kCPU,
                std::chrono::seconds(1));
    FAIL() << "nobody else came";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "ranks 1 and 2 of 3 did not come within 1 s");
  }
}

}  // namespace
}  // namespace deq::lab

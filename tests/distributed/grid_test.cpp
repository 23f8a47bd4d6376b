#include <gtest/gtest.h>

#include "core/require.h"
#include "deq/lab/distributed/world.h"
#include "distributed/ranks.h"

namespace deq::lab {
namespace {

using test::Scenario;

double total(World& world, double number) {
  const auto sum = torch::full({1}, number, torch::kFloat64);
  world.sum(sum);
  return sum.item<double>();
}

/// Four ranks in two rows of two: 0 1 / 2 3.
const Scenario kGrid("grid", [](const auto& world) {
  const auto grid = World::grid(world, 2);
  const auto own = static_cast<double>(world->rank());
  require(grid.row->size() == 2 && grid.row->rank() == world->rank() % 2, "place in the row");
  require(grid.column->size() == 2 && grid.column->rank() == world->rank() / 2, "in the column");
  require(total(*grid.row, own) == (world->rank() < 2 ? 1 : 5), "sum of the row");
  require(total(*grid.column, own) == (world->rank() % 2 == 0 ? 2 : 4), "sum of the column");
  require(total(*world, own) == 6, "sum of all");
  const auto first = torch::full({1}, own, torch::kFloat64);
  grid.column->broadcast(first);
  require(first.item<double>() == world->rank() % 2, "the column's first");
  grid.row->require_same("the row", std::to_string(world->rank() / 2));
});

const Scenario kGridOfAll("grid-of-all", [](const auto& world) {
  auto grid = World::grid(world, 2);
  require(grid.row == world && grid.column->size() == 1, "one row");
  grid = World::grid(world, 1);
  require(grid.column == world && grid.row->size() == 1, "one column");
});

const Scenario kLostInARow("lost-in-a-row", [](const auto& world) {
  const auto grid = World::grid(world, 2);
  if (world->rank() == 3) throw Error("has had enough");
  // Its row waits for it, and the other row for the first.
  total(*grid.row, 1);
  total(*grid.column, 1);
});

TEST(Grid, RowsAndColumnsAreWorlds) {
  test::expect_success(4, "grid");
}

TEST(Grid, OfOneRowOrOneColumnIsTheWorld) {
  test::expect_success(2, "grid-of-all");
}

TEST(Grid, ALostRankIsNamedByItsPlaceInTheWorld) {
  const auto outcomes = test::run_ranks(4, "lost-in-a-row");
  for (size_t rank = 1; rank < 3; ++rank) {
    EXPECT_EQ(outcomes[rank].output, "rank 3 of 4 failed: has had enough\n") << rank;
  }
}

TEST(Grid, WhatDoesNotDivideIsRefused) {
  EXPECT_THROW(World::grid(World::alone(), 2), Error);
  EXPECT_EQ(World::grid(World::alone(), 1).row->size(), 1);
}

}  // namespace
}  // namespace deq::lab

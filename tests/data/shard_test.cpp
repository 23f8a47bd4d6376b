#include "deq/lab/data/batches/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "deq/core/error.h"
#include "deq/lab/base/errors.h"

namespace deq::lab {
namespace {

/// The entries of the order that the batch takes.
std::vector<int64_t> entries(const Shard& shard, int64_t index) {
  std::vector<int64_t> result(static_cast<size_t>(shard.slice_size()));
  std::iota(result.begin(), result.end(), shard.first_entry(index));
  return result;
}

TEST(Shard, SlicesOfAllRanksAndPartsAreTheBatchInOrder) {
  for (const int64_t ranks : {1, 2, 3}) {
    for (const int64_t parts : {1, 2, 4}) {
      const int64_t batch_size = 24, samples = 100;
      std::vector<Shard> shards;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        shards.push_back({.batch_size = batch_size, .rank = rank, .ranks = ranks, .parts = parts});
        validate(shards.back());
        EXPECT_EQ(shards.back().batches(samples), 4 * parts);
      }
      std::vector<int64_t> visited;
      for (int64_t index = 0; index < 4 * parts; ++index) {
        for (const auto& shard : shards) {
          const auto slice = entries(shard, index);
          visited.insert(visited.end(), slice.begin(), slice.end());
          EXPECT_EQ(slice.front() % batch_size, shard.first_position(index % parts));
        }
      }
      std::vector<int64_t> single_process(96);  // four whole steps of the 100 samples
      std::iota(single_process.begin(), single_process.end(), 0);
      EXPECT_EQ(visited, single_process) << ranks << " ranks, " << parts << " parts";
    }
  }
}

TEST(Shard, DataSetMustHoldOneBatch) {
  const Shard shard{.batch_size = 8};
  EXPECT_EQ(shard.batches(8), 1);
  EXPECT_THAT([&] { shard.batches(7); },
              ::testing::ThrowsMessage<UsageError>(::testing::StrEq(
                  "batch_size = 8, must be at most the 7 samples of the data set")));
}

TEST(Shard, IsValidated) {
  const auto message = [](const Shard& shard) -> std::string {
    try {
      validate(shard);
    } catch (const Error& error) {
      return error.what();
    }
    return "valid";
  };
  EXPECT_EQ(message({}), "valid");
  EXPECT_EQ(message({.ranks = 0}), "shard: ranks = 0, must be ≥ 1");
  EXPECT_EQ(message({.batch_size = 2, .rank = 2, .ranks = 2}),
            "shard: rank = 2, must be ≥ 0 and < 2");
  EXPECT_EQ(message({.rank = -1}), "shard: rank = -1, must be ≥ 0 and < 1");
  EXPECT_EQ(message({.parts = 0}), "shard: parts = 0, must be ≥ 1");
  const std::string divisible = ", must be a positive multiple of 6, its ranks times its parts";
  EXPECT_EQ(message({.batch_size = 8, .ranks = 3, .parts = 2}),
            "shard: batch_size = 8" + divisible);
  EXPECT_EQ(message({.batch_size = 0, .ranks = 3, .parts = 2}),
            "shard: batch_size = 0" + divisible);
}

}  // namespace
}  // namespace deq::lab

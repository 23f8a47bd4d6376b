#include "deq/lab/data/batches/tensor_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using ::testing::StrEq;
using ::testing::ThrowsMessage;

class InMemory : public test::Seeded {
 protected:
  torch::Tensor x_ = torch::randn({50, 2, 3}, generator_);
  torch::Tensor y_ = torch::arange(50);
};

TEST_F(InMemory, RowsStayTogether) {
  const TensorBatches source({x_, y_}, {.batch_size = 8, .seed = test::seed()});
  ASSERT_EQ(source.batches(), 6);
  for (int64_t index = 0; index < 6; ++index) {
    const auto batch = source.batch(3, index);
    ASSERT_EQ(batch.tensors.size(), 2U);
    EXPECT_EQ(batch.size(), 8);
    EXPECT_EQ(batch.skipped, 0);
    EXPECT_TRUE(batch.tensors[0].equal(x_.index({batch.tensors[1]}))) << index;
  }
}

TEST_F(InMemory, AnEpochVisitsNoSampleTwice) {
  const TensorBatches source({y_}, {.batch_size = 8, .seed = test::seed()});
  std::vector<torch::Tensor> visited;
  for (int64_t i = 0; i < 6; ++i) visited.push_back(source.batch(0, i).tensors[0]);
  EXPECT_EQ(std::get<0>(torch::unique_dim(torch::cat(visited), 0)).size(0), 48);
}

TEST_F(InMemory, RanksAndPartsMakeTheBatchOfOneProcess) {
  const TensorBatches whole({y_}, {.batch_size = 12, .seed = test::seed()});
  for (int64_t step = 0; step < whole.batches(); ++step) {
    std::vector<torch::Tensor> slices;
    for (int64_t part = 0; part < 2; ++part) {
      for (int64_t rank = 0; rank < 3; ++rank) {
        const TensorBatches source(
            {y_}, {.batch_size = 12, .rank = rank, .ranks = 3, .parts = 2, .seed = test::seed()});
        slices.push_back(source.batch(1, step * 2 + part).tensors[0]);
      }
    }
    EXPECT_TRUE(torch::cat(slices).equal(whole.batch(1, step).tensors[0])) << step;
  }
}

TEST_F(InMemory, WithoutShuffleFollowsTheDataSet) {
  const TensorBatches source({y_}, {.batch_size = 8, .shuffle = false});
  EXPECT_TRUE(source.batch(5, 2).tensors[0].equal(torch::arange(16, 24)));
}

TEST_F(InMemory, ABatchCanBeMovedAndConverted) {
  const TensorBatches source({x_, y_}, {.batch_size = 4});
  const auto batch = source.batch(0, 0), moved = batch.to(torch::kCPU, torch::kFloat64);
  EXPECT_EQ(moved.tensors[0].scalar_type(), torch::kFloat64);
  EXPECT_TRUE(moved.tensors[0].to(torch::kFloat32).equal(batch.tensors[0]));
  EXPECT_TRUE(moved.tensors[1].equal(batch.tensors[1]));
  EXPECT_EQ(moved.tensors[1].scalar_type(), torch::kInt64);
  EXPECT_EQ(batch.to(torch::kCPU).tensors[0].scalar_type(), torch::kFloat32);
  EXPECT_EQ((Batch{{x_}, 3}).to(torch::kCPU).skipped, 3);
}

TEST_F(InMemory, TensorsMustMatch) {
  const Shard shard{.batch_size = 4};
  EXPECT_THAT([&] { TensorBatches({}, shard); },
              ThrowsMessage<Error>(StrEq("tensors: there is none, must be at least one")));
  EXPECT_THAT(
      [&] {
        TensorBatches({x_, y_.slice(0, 1)}, shard);
      },
      ThrowsMessage<Error>(StrEq("tensors: tensor 1 has 49 samples, must be 50 as of tensor 0")));
  EXPECT_THAT([&] { TensorBatches({torch::tensor(1.0)}, shard); },
              ThrowsMessage<Error>(StrEq("tensors: tensor 0 is a scalar, must have samples")));
  EXPECT_THROW(TensorBatches({x_}, {.batch_size = 64}), UsageError);
  EXPECT_THROW(TensorBatches({x_}, {.batch_size = 0}), Error);
}

}  // namespace
}  // namespace deq::lab

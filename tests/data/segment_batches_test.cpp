#include "deq/lab/data/text/segment_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/batches/loader.h"

namespace deq::lab {
namespace {

using ::testing::StrEq;
using ::testing::ThrowsMessage;

torch::Tensor text(int64_t tokens) {
  return torch::arange(tokens, torch::kInt32);
}

TEST(Segments, GoOnWhereTheLastOneEnded) {
  // Streams 0 … 6, 7 … 13 and 14 … 20 of seven tokens; 21 and 22 are left out.
  const SegmentBatches source(text(23), 4, {.batch_size = 3});
  ASSERT_EQ(source.batches(), 2);
  const auto first = source.batch(0, 0), second = source.batch(0, 1);
  EXPECT_TRUE(first.tensors[0].equal(
      torch::tensor({{0, 1, 2, 3}, {7, 8, 9, 10}, {14, 15, 16, 17}}, torch::kInt64)));
  EXPECT_TRUE(first.tensors[1].equal(first.tensors[0] + 1));
  EXPECT_TRUE(second.tensors[0].equal(torch::tensor({{4, 5}, {11, 12}, {18, 19}}, torch::kInt64)));
  EXPECT_TRUE(second.tensors[1].equal(second.tensors[0] + 1));
  for (const auto& tensor : second.tensors) {
    EXPECT_EQ(tensor.scalar_type(), torch::kInt64);
    EXPECT_TRUE(tensor.is_contiguous());
  }
  EXPECT_TRUE(source.starts_anew(0));
  EXPECT_FALSE(source.starts_anew(1));
}

TEST(Segments, EveryTokenButTheFirstIsPredictedOnce) {
  for (const int64_t tokens : {8, 9, 23, 64, 101}) {
    for (const int64_t streams : {1, 2, 3, 4}) {
      for (const int64_t length : {1, 2, 5, 7, 1000}) {
        const SegmentBatches source(text(tokens), length, {.batch_size = streams});
        std::vector<torch::Tensor> inputs, targets;
        for (int64_t i = 0; i < source.batches(); ++i) {
          const auto batch = source.batch(0, i);
          EXPECT_LE(batch.tensors[0].size(1), length);
          inputs.push_back(batch.tensors[0]);
          targets.push_back(batch.tensors[1]);
        }
        const auto each = tokens / streams;
        const auto expected = torch::arange(each * streams).view({streams, each}).slice(1, 1);
        const auto predicted = torch::cat(targets, 1);
        EXPECT_TRUE(predicted.equal(expected)) << tokens << ' ' << streams << ' ' << length;
        EXPECT_TRUE(torch::cat(inputs, 1).equal(expected - 1));
        EXPECT_EQ(source.predictions(), predicted.numel());
      }
    }
  }
}

TEST(Segments, EpochsAreAlike) {
  const SegmentBatches source(text(50), 4, {.batch_size = 5});
  Loader loader(std::make_shared<SegmentBatches>(text(50), 4, Shard{.batch_size = 5}),
                {.workers = 2, .prefetch = 4});
  for (int64_t i = 0; i < 3 * source.batches(); ++i) {
    const auto batch = loader.next();
    EXPECT_TRUE(batch.tensors[1].equal(source.batch(0, i % source.batches()).tensors[1])) << i;
  }
}

TEST(Segments, RanksAndPartsMakeTheBatchOfOneProcess) {
  const SegmentBatches whole(text(500), 6, {.batch_size = 12});
  for (int64_t step = 0; step < whole.batches(); ++step) {
    std::vector<torch::Tensor> inputs, targets;
    for (int64_t part = 0; part < 2; ++part) {
      for (int64_t rank = 0; rank < 3; ++rank) {
        const SegmentBatches source(text(500), 6,
                                    {.batch_size = 12, .rank = rank, .ranks = 3, .parts = 2});
        ASSERT_EQ(source.batches(), 2 * whole.batches());
        EXPECT_EQ(source.predictions(), whole.predictions());
        EXPECT_EQ(source.starts_anew(2 * step + part), step == 0);
        const auto batch = source.batch(0, 2 * step + part);
        inputs.push_back(batch.tensors[0]);
        targets.push_back(batch.tensors[1]);
      }
    }
    const auto batch = whole.batch(0, step);
    EXPECT_TRUE(torch::cat(inputs).equal(batch.tensors[0])) << step;
    EXPECT_TRUE(torch::cat(targets).equal(batch.tensors[1])) << step;
  }
}

TEST(Segments, APartKeepsItsStreams) {
  const SegmentBatches source(text(500), 6, {.batch_size = 12, .rank = 1, .ranks = 3, .parts = 2});
  for (int64_t i = 2; i < source.batches(); ++i) {
    const auto last = source.batch(0, i - 2).tensors[1].select(1, -1);
    EXPECT_TRUE(source.batch(0, i).tensors[0].select(1, 0).equal(last)) << i;
  }
}

TEST(Segments, TokensMayHave64Bits) {
  const SegmentBatches narrow(text(50), 4, {.batch_size = 1});
  const SegmentBatches wide(text(50).to(torch::kInt64), 4, {.batch_size = 1});
  EXPECT_TRUE(wide.batch(0, 12).tensors[0].equal(narrow.batch(0, 12).tensors[0]));
}

TEST(Segments, WhatCannotBeIsNamed) {
  EXPECT_NO_THROW(SegmentBatches(text(8), 3, {.batch_size = 4}));
  EXPECT_THAT([] { SegmentBatches(text(7), 3, {.batch_size = 4}); },
              ThrowsMessage<UsageError>(
                  StrEq("batch_size = 4, must be at most half of the 7 tokens of the text")));
  EXPECT_THAT([] { SegmentBatches(text(8), 0, {.batch_size = 4}); },
              ThrowsMessage<Error>(StrEq("segments: length = 0, must be ≥ 1")));
  EXPECT_THAT(
      [] {
        SegmentBatches(torch::zeros({2, 3}), 1, {.batch_size = 1});
      },
      ThrowsMessage<Error>(StrEq("segments: tokens is Float [2, 3], must be int32 or int64 [N]")));
  const SegmentBatches source(text(8), 3, {.batch_size = 2});
  EXPECT_THAT([&] { source.batch(0, 1); },
              ThrowsMessage<Error>(StrEq("segments: index = 1, must be ≥ 0 and < 1")));
  EXPECT_THROW(SegmentBatches(text(8), 3, {.batch_size = 2, .ranks = 3}), Error);
}

}  // namespace
}  // namespace deq::lab

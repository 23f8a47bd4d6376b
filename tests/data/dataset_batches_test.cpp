#include "deq/lab/data/batches/dataset_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using ::testing::StrEq;
using ::testing::ThrowsMessage;

constexpr int64_t kDatasetBatchesSamples = 20;

/// Sample i is ([i, i], key); some cannot be read, some have another shape.
class Numbers : public Dataset {
 public:
  std::set<int64_t> unreadable, longer;

  int64_t size() const override { return kDatasetBatchesSamples; }
  std::vector<torch::Tensor> get(int64_t index, uint64_t key) const override {
    require(!unreadable.contains(index), "the file is truncated");
    const auto value = torch::full({longer.contains(index) ? 3 : 2}, static_cast<double>(index));
    return {value, torch::tensor(static_cast<int64_t>(key))};
  }
  std::string describe(int64_t index) const override { return fmt::format("number-{}.bin", index); }
};

class FromDataset : public test::Seeded {
 protected:
  DatasetBatches source(OnUnreadable on_unreadable = OnUnreadable::Fail) {
    return {numbers_, {.batch_size = 5, .seed = test::seed(), .shuffle = false}, on_unreadable};
  }
  std::shared_ptr<Numbers> numbers_ = std::make_shared<Numbers>();
};

torch::Tensor indices(const Batch& batch) {
  return batch.tensors[0].select(1, 0).to(torch::kInt64);
}

TEST_F(FromDataset, StacksSamplesInTheEpochsOrder) {
  const DatasetBatches shuffled(numbers_, {.batch_size = 5, .seed = test::seed()});
  const EpochOrder order(kDatasetBatchesSamples, test::seed(), true);
  ASSERT_EQ(shuffled.batches(), 4);
  for (int64_t index = 0; index < 4; ++index) {
    const auto batch = shuffled.batch(2, index);
    EXPECT_EQ(batch.tensors[0].sizes(), (std::vector<int64_t>{5, 2}));
    EXPECT_EQ(batch.tensors[1].sizes(), (std::vector<int64_t>{5}));
    EXPECT_TRUE(indices(batch).equal(order.of(2).narrow(0, index * 5, 5))) << index;
  }
}

TEST_F(FromDataset, KeysDependOnSeedEpochAndSampleOnly) {
  std::set<int64_t> keys;
  const auto collect = [&](const Shard& shard, int64_t epoch) {
    auto of_sample = torch::zeros({kDatasetBatchesSamples}, torch::kInt64);
    const DatasetBatches batches(numbers_, shard);
    for (int64_t index = 0; index < batches.batches(); ++index) {
      const auto batch = batches.batch(epoch, index);
      of_sample.index_put_({indices(batch)}, batch.tensors[1]);
    }
    for (int64_t i = 0; i < kDatasetBatchesSamples; ++i) keys.insert(of_sample[i].item<int64_t>());
    return of_sample;
  };
  const auto keys_of_all = collect({.batch_size = 5, .seed = 1}, 0);
  EXPECT_EQ(keys.size(), 20U);
  EXPECT_TRUE(collect({.batch_size = 10, .parts = 5, .seed = 1}, 0).equal(keys_of_all));
  EXPECT_TRUE(collect({.batch_size = 4, .seed = 1, .shuffle = false}, 0).equal(keys_of_all));
  EXPECT_EQ(keys.size(), 20U);
  collect({.batch_size = 5, .seed = 1}, 1);
  collect({.batch_size = 5, .seed = 2}, 0);
  EXPECT_EQ(keys.size(), 60U);
}

TEST_F(FromDataset, AnUnreadableSampleIsNamed) {
  numbers_->unreadable = {7};
  const auto batches = source();
  EXPECT_EQ(batches.batch(0, 0).size(), 5);
  EXPECT_THAT([&] { batches.batch(0, 1); },
              ThrowsMessage<Error>(StrEq("number-7.bin cannot be read: the file is truncated")));
}

TEST_F(FromDataset, UnreadableSamplesAreLeftOutAndCounted) {
  numbers_->unreadable = {5, 7, 15, 16, 17, 18, 19};
  const auto batches = source(OnUnreadable::Skip);
  EXPECT_EQ(batches.batch(0, 0).skipped, 0);
  const auto batch = batches.batch(0, 1);
  EXPECT_EQ(batch.skipped, 2);
  EXPECT_EQ(batch.size(), 3);
  EXPECT_TRUE(indices(batch).equal(torch::tensor({6, 8, 9})));
  EXPECT_THAT([&] { batches.batch(0, 3); },
              ThrowsMessage<Error>(StrEq("no sample of a batch is left: number-19.bin cannot be "
                                         "read: the file is truncated")));
}

TEST_F(FromDataset, ASampleOfAnotherShapeIsNamed) {
  numbers_->longer = {13};
  for (const auto on_unreadable : {OnUnreadable::Fail, OnUnreadable::Skip}) {
    const auto batches = source(on_unreadable);
    EXPECT_THAT([&] { batches.batch(0, 2); },
                ThrowsMessage<Error>(
                    StrEq("number-13.bin is Float[3], Long[], must be Float[2], Long[] as the "
                          "samples before it")));
  }
}

TEST_F(FromDataset, TorchsErrorsAreOneSentence) {
  class Broken : public Numbers {
    std::vector<torch::Tensor> get(int64_t, uint64_t) const override {
      TORCH_CHECK(false, "no such thing");
    }
    std::string describe(int64_t index) const override { return Dataset::describe(index); }
  };
  const DatasetBatches batches(std::make_shared<Broken>(), {.shuffle = false});
  EXPECT_THAT([&] { batches.batch(0, 4); },
              ThrowsMessage<Error>(StrEq("sample 4 cannot be read: no such thing")));
}

TEST_F(FromDataset, ADataSetSmallerThanABatchIsRefused) {
  EXPECT_THROW(DatasetBatches(numbers_, {.batch_size = 21}), UsageError);
}

}  // namespace
}  // namespace deq::lab

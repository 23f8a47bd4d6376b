#include "deq/lab/data/batches/epoch_order.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/seed.h"

namespace deq::lab {
namespace {

constexpr int64_t kEpochOrderSamples = 200;

class Order : public test::Seeded {};

TEST_F(Order, IsAPermutation) {
  const EpochOrder order(kEpochOrderSamples, test::seed(), /*shuffle=*/true);
  for (const int64_t epoch : {0, 1, 7, 123456789}) {
    const auto sorted = std::get<0>(order.of(epoch).sort());
    EXPECT_TRUE(sorted.equal(torch::arange(kEpochOrderSamples))) << epoch;
  }
}

TEST_F(Order, IsAFunctionOfSeedAndEpoch) {
  const EpochOrder order(kEpochOrderSamples, test::seed(), true),
      same(kEpochOrderSamples, test::seed(), true);
  const EpochOrder other(kEpochOrderSamples, test::seed() + 1, true);
  std::vector<torch::Tensor> drawn;
  for (int64_t epoch = 0; epoch < 6; ++epoch) drawn.push_back(order.of(epoch));
  for (int64_t epoch = 5; epoch >= 0; --epoch) {
    const auto& expected = drawn[static_cast<size_t>(epoch)];
    EXPECT_TRUE(order.of(epoch).equal(expected)) << epoch;
    EXPECT_TRUE(same.of(epoch).equal(expected)) << epoch;
    EXPECT_FALSE(other.of(epoch).equal(expected)) << epoch;
    EXPECT_FALSE(order.of(epoch + 1).equal(expected)) << epoch;
    // Neither may the orders of one seed be the next seed's, shifted by an epoch.
    EXPECT_FALSE(other.of(epoch + 1).equal(expected)) << epoch;
  }
}

TEST_F(Order, VisitsEverySampleEquallyEarly) {
  // The mean position of a sample over many epochs: uniform on 0 … n − 1, within five standard
  // errors.
  const EpochOrder order(kEpochOrderSamples, test::seed(), true);
  constexpr int64_t kEpochs = 2000;
  auto sums = torch::zeros({kEpochOrderSamples}, torch::kFloat64);
  const auto positions = torch::arange(kEpochOrderSamples).to(torch::kFloat64);
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    sums.index_add_(0, order.of(epoch), positions);
  }
  const double deviation =
      std::sqrt((kEpochOrderSamples * kEpochOrderSamples - 1) / 12.0 / kEpochs);
  const auto off = (sums / kEpochs - (kEpochOrderSamples - 1) / 2.0).abs().max().item<double>();
  EXPECT_LT(off, 5 * deviation);
}

TEST_F(Order, WithoutShuffleIsThatOfTheDataSet) {
  const EpochOrder order(kEpochOrderSamples, test::seed(), /*shuffle=*/false);
  for (const int64_t epoch : {0, 1, 8})
    EXPECT_TRUE(order.of(epoch).equal(torch::arange(kEpochOrderSamples)));
}

TEST_F(Order, IsSharedByThoseWhoAskForOneEpoch) {
  const EpochOrder order(kEpochOrderSamples, test::seed(), true);
  const auto first = order.of(4), second = order.of(5);
  EXPECT_EQ(order.of(4).data_ptr(), first.data_ptr());
  EXPECT_EQ(order.of(5).data_ptr(), second.data_ptr());
}

TEST_F(Order, MayBeAskedFromSeveralThreads) {
  const EpochOrder order(kEpochOrderSamples, test::seed(), true),
      expected(kEpochOrderSamples, test::seed(), true);
  std::vector<torch::Tensor> drawn(64);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = t; i < drawn.size(); i += 4)
          drawn[i] = order.of(static_cast<int64_t>(i) / 5);
      });
    }
  }
  for (size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_TRUE(drawn[i].equal(expected.of(static_cast<int64_t>(i) / 5))) << i;
  }
}

}  // namespace
}  // namespace deq::lab

#include "support/freezing_recorder.h"

#include <gtest/gtest.h>
#include <torch/types.h>

// The CPU's stand-in for a GPU's graphs keeps what those keep. Otherwise the contract's tests would
// pass on the CPU whatever is forgotten.

namespace deq {
namespace {

class FreezingRecorderTest : public ::testing::Test {
 protected:
  double replayed() {
    graph_->replay();
    return y_.item<double>();
  }
  void record(const std::function<torch::Tensor()>& work) {
    graph_ = test::make_freezing_recorder()->record([&] { y_ = work(); });
  }

  std::unique_ptr<DeviceGraph> graph_;
  torch::Tensor x_ = torch::tensor(2.0, torch::kFloat64), y_;
};

TEST_F(FreezingRecorderTest, FreezesAnAddress) {
  const auto memory = x_;
  record([this] { return 10 * x_; });
  x_ = torch::tensor(3.0, torch::kFloat64);
  EXPECT_EQ(replayed(), 20) << "another tensor is not seen";
  memory.fill_(4);
  EXPECT_EQ(replayed(), 40) << "another number in the same memory is";
}

TEST_F(FreezingRecorderTest, LeavesItsResultWhereItWasRecorded) {
  record([this] { return x_ + 1; });
  const auto* const address = y_.const_data_ptr();
  x_.fill_(5);
  EXPECT_EQ(replayed(), 6);
  EXPECT_EQ(y_.const_data_ptr(), address);
}

TEST_F(FreezingRecorderTest, FreezesANumberAndABranchOfTheHost) {
  double factor = 10;
  bool negated = false;
  record([&] { return negated ? -factor * x_ : factor * x_; });
  factor = 7;
  negated = true;
  EXPECT_EQ(replayed(), 20);
}

TEST_F(FreezingRecorderTest, RefusesWhatWaitsForTheDevice) {
  EXPECT_THROW(record([this] { return x_ * x_.item<double>(); }), std::runtime_error);
  record([this] { return x_ + 1; });
  EXPECT_EQ(replayed(), 3) << "and records on after that";
}

}  // namespace
}  // namespace deq

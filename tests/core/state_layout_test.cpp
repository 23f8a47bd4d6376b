#include "deq/core/state_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "support/seed.h"

namespace deq {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class StateLayoutTest : public test::Seeded {
 protected:
  torch::Tensor draw(at::IntArrayRef shape) {
    return torch::randn(shape, generator_, torch::kFloat64);
  }
};

TEST_F(StateLayoutTest, SingleContiguousTensorPacksWithoutCopy) {
  const State state{draw({3, 2, 4})};
  const auto layout = StateLayout::of(state);
  const auto slab = layout.pack(state);
  EXPECT_EQ(layout.dim(), 8);
  EXPECT_EQ(layout.count(), 1U);
  EXPECT_EQ(slab.sizes(), (std::vector<int64_t>{3, 8}));
  EXPECT_EQ(slab.data_ptr(), state[0].data_ptr());
}

TEST_F(StateLayoutTest, TensorsLieSideBySide) {
  const State state{draw({3, 5}), draw({3, 2, 2}), draw({3})};
  const auto layout = StateLayout::of(state);
  const auto slab = layout.pack(state);
  EXPECT_EQ(layout.dim(), 10);
  ASSERT_EQ(slab.sizes(), (std::vector<int64_t>{3, 10}));
  EXPECT_TRUE(slab.narrow(1, 0, 5).equal(state[0]));
  EXPECT_TRUE(slab.narrow(1, 5, 4).equal(state[1].view({3, 4})));
  EXPECT_TRUE(slab.select(1, 9).equal(state[2]));
}

TEST_F(StateLayoutTest, UnpackingUndoesPacking) {
  const State state{draw({2, 3, 1, 2}), draw({2, 7}), draw({2})};
  const auto layout = StateLayout::of(state);
  const auto back = layout.unpack(layout.pack(state));
  ASSERT_EQ(back.size(), state.size());
  for (size_t i = 0; i < state.size(); ++i) EXPECT_TRUE(back[i].equal(state[i])) << i;
}

TEST_F(StateLayoutTest, UnpackingYieldsViews) {
  for (const State& state : {State{draw({2, 3})}, State{draw({2, 3}), draw({2, 2, 2})}}) {
    const auto layout = StateLayout::of(state);
    const auto slab = draw({2, layout.dim()});
    auto parts = layout.unpack(slab);
    for (auto& part : parts) {
      EXPECT_EQ(part.storage().data(), slab.storage().data());
      part.fill_(7.0);
    }
    EXPECT_TRUE(slab.eq(7.0).all().item<bool>());
  }
}

TEST_F(StateLayoutTest, PartsOfASlabAreTheSlab) {
  const State state{draw({3, 4, 2, 2}).contiguous(torch::MemoryFormat::ChannelsLast), draw({3, 5}),
                    draw({3, 2, 3})};
  const auto slab = StateLayout::of(state).pack(state);
  const auto parts = StateLayout::of(state).unpack(slab);
  const auto layout = StateLayout::of(parts);  // as a start that another solve has left
  EXPECT_EQ(layout.pack(parts).data_ptr(), slab.data_ptr());
  EXPECT_TRUE(layout.pack(parts).equal(slab));

  const auto packs_by_value = [&](const State& other) {
    const auto packed = StateLayout::of(state).pack(other);
    EXPECT_NE(packed.data_ptr(), slab.data_ptr());
    EXPECT_TRUE(StateLayout::of(state).unpack(packed)[1].equal(other[1]));
  };
  packs_by_value({parts[0], parts[1].clone(), parts[2]});
  packs_by_value({parts[0], slab.narrow(1, 17, 5), parts[2]});
  packs_by_value({parts[0].contiguous(), parts[1], parts[2]});
  const auto leaf = slab.detach().requires_grad_();
  const auto tracked = StateLayout::of(state).unpack(leaf);
  EXPECT_TRUE(StateLayout::of(state).pack(tracked).requires_grad());
}

TEST_F(StateLayoutTest, NonContiguousTensorPacksByValue) {
  const auto transposed = draw({4, 3, 2}).transpose(1, 2);
  const auto layout = StateLayout::of({transposed});
  EXPECT_TRUE(layout.pack({transposed}).equal(transposed.contiguous().view({4, 6})));
}

TEST_F(StateLayoutTest, ImagesKeepTheirOrder) {
  const auto images = draw({3, 4, 5, 2}).contiguous(torch::MemoryFormat::ChannelsLast);
  const State state{images, draw({3, 2})};
  const auto layout = StateLayout::of(state);
  const auto slab = layout.pack(state);
  EXPECT_TRUE(slab.narrow(1, 0, 40).equal(images.permute({0, 2, 3, 1}).reshape({3, 40})));
  const auto back = layout.unpack(slab);
  for (size_t i = 0; i < state.size(); ++i) EXPECT_TRUE(back[i].equal(state[i])) << i;
  EXPECT_EQ(back[0].storage().data(), slab.storage().data());
  // A step may give another order; the slab's stays.
  EXPECT_TRUE(layout.pack({images.contiguous(), state[1]}).equal(slab));
}

TEST_F(StateLayoutTest, LayoutServesAnotherBatchSize) {
  const auto layout = StateLayout::of({draw({2, 3}), draw({2, 4})});
  const auto parts = layout.unpack(draw({5, 7}));
  EXPECT_EQ(parts[1].sizes(), (std::vector<int64_t>{5, 4}));
}

TEST_F(StateLayoutTest, GradientsFlowThroughPackAndUnpack) {
  const State state{draw({2, 3}).requires_grad_(), draw({2, 2, 2}).requires_grad_()};
  const auto layout = StateLayout::of(state);
  const auto weights = draw({2, 7});
  const auto parts = layout.unpack(layout.pack(state) * weights);
  (parts[0].sum() + 2 * parts[1].sum()).backward();
  EXPECT_TRUE(state[0].grad().equal(weights.narrow(1, 0, 3)));
  EXPECT_TRUE(state[1].grad().equal(2 * weights.narrow(1, 3, 4).reshape({2, 2, 2})));
}

template <class Call>
void expect_error(const Call& call, const std::string& part) {
  EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(part)));
}

TEST_F(StateLayoutTest, RefusesWhatCannotBeAState) {
  expect_error([] { StateLayout::of({}); }, "at least one tensor");
  expect_error([] { StateLayout::of({torch::ones({})}); }, "batch dimension");
  expect_error(
      [] {
        StateLayout::of({torch::ones({2, 1}), torch::ones({3, 1})});
      },
      "differ in batch size: 2 and 3");
  expect_error(
      [] {
        StateLayout::of({torch::ones({2, 1}), torch::ones({2, 1}, torch::kFloat64)});
      },
      "differ in type");
  expect_error([] { StateLayout::of({torch::ones({2, 0})}); }, "at least one number");
}

TEST_F(StateLayoutTest, RefusesAStateOrSlabOfAnotherShape) {
  const auto layout = StateLayout::of({draw({2, 3}), draw({2, 4})});
  expect_error([&] { layout.pack({draw({2, 3})}); }, "1 tensors, expected 2");
  expect_error(
      [&] {
        layout.pack({draw({2, 3}), draw({2, 5})});
      },
      "state tensor 1 has shape [2, 5]");
  expect_error([&] { layout.unpack(draw({2, 8})); }, "does not fit a state of 7");
  expect_error([&] { layout.unpack(draw({7})); }, "does not fit a state of 7");
}

}  // namespace
}  // namespace deq

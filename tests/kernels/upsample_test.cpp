#include "kernels/images/upsample.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

#include "derivatives.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

class UpsampleTest : public test::Seeded {
 protected:
  at::Tensor draw(at::IntArrayRef shape) {
    return torch::randn(shape, generator_, torch::kFloat64);
  }
};

TEST_F(UpsampleTest, ItAndItsDerivativesAreTorchs) {
  for (const int64_t channels : {1, 8, 13}) {
    for (const bool added : {true, false}) {
      for (const bool relu : {true, false}) {
        SCOPED_TRACE(::testing::Message() << channels << " channels" << (added ? ", a sum" : "")
                                          << (relu ? ", ReLU" : ""));
        test::Variables given{draw({3, channels, 5, 4})};
        if (added) given.push_back(draw({3, channels, 10, 8}));
        const auto with = [&](const auto& f) {
          return [f, relu](const test::Variables& v) {
            return f(v[0], v.size() > 1 ? v[1] : at::Tensor(), relu);
          };
        };
        ASSERT_TRUE(upsample_add_serves(given[0], added ? given[1] : at::Tensor()));
        test::expect_derivatives(with(upsample_add), with(reference::upsample_add), given,
                                 draw({3, channels, 10, 8}));
      }
    }
  }
}

TEST_F(UpsampleTest, ReadsImagesInAnyOrder) {
  const auto small = draw({2, 6, 3, 5}), x = draw({2, 6, 6, 10});
  const auto expected = reference::upsample_add(small, x, true);
  for (const auto& own : {small, small.contiguous(at::MemoryFormat::ChannelsLast)}) {
    for (const auto& other : {x, x.transpose(2, 3).contiguous().transpose(2, 3)}) {
      EXPECT_TRUE(upsample_add(own, other, true).equal(expected));
    }
  }
  const auto one = draw({1, 6, 3, 5});  // all samples in the same memory
  EXPECT_TRUE(upsample_add(one.expand({2, 6, 3, 5}), x, false)
                  .equal(reference::upsample_add(one.expand({2, 6, 3, 5}), x, false)));
}

TEST_F(UpsampleTest, WhatIsNotFiniteStays) {
  auto small = torch::zeros({1, 1, 1, 1});
  small.fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(upsample_add(small, {}, true).isnan().all().item<bool>());
}

}  // namespace
}  // namespace deq::kernels

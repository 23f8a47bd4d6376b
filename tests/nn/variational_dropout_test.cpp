#include "deq/nn/variational_dropout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "support/maps.h"

namespace deq {
namespace {

using test::f64;

TEST(VariationalDropout, KeepsTheMean) {
  const VariationalDropout drop(0.3);
  const auto mask = drop->mask({400, 500, 1, 1}, f64());
  EXPECT_EQ(mask.sizes(), (std::vector<int64_t>{400, 500, 1, 1}));
  EXPECT_EQ(mask.scalar_type(), torch::kFloat64);
  EXPECT_FALSE(mask.requires_grad());
  const auto kept = mask != 0;
  EXPECT_TRUE(mask.masked_select(kept).eq(1 / 0.7).all().item<bool>());
  // 200,000 draws: five standard deviations of their mean.
  EXPECT_NEAR(kept.to(torch::kFloat64).mean().item<double>(), 0.7, 5 * std::sqrt(0.21 / 200'000));
}

TEST(VariationalDropout, EveryMaskIsAnother) {
  const VariationalDropout drop(0.5);
  EXPECT_FALSE(drop->mask({10, 10}, f64()).equal(drop->mask({10, 10}, f64())));
}

TEST(VariationalDropout, NoneInEvaluationOrAtRateZero) {
  VariationalDropout drop(0.5);
  drop->eval();
  EXPECT_FALSE(drop->mask({2, 3}, f64()).defined());
  EXPECT_FALSE(VariationalDropout(0.0)->mask({2, 3}, f64()).defined());
}

TEST(VariationalDropout, TheRateIsValidated) {
  using ::testing::HasSubstr;
  EXPECT_THAT([] { VariationalDropout(1.0); },
              ::testing::ThrowsMessage<Error>(HasSubstr("rate = 1, must be in [0, 1)")));
  EXPECT_THROW(VariationalDropout(-0.1), Error);
}

}  // namespace
}  // namespace deq

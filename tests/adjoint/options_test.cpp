#include "deq/adjoint/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"

namespace deq {
namespace {

TEST(GradientOptionsTest, Names) {
  EXPECT_EQ(gradient_name(GradientOptions(Implicit{})), "implicit");
  EXPECT_EQ(gradient_name(GradientOptions(Truncated{})), "truncated");
  EXPECT_EQ(gradient_name(GradientOptions(JacobianFree{})), "jacobian-free");
  EXPECT_EQ(gradient_name(GradientOptions(Phantom{})), "phantom");
  EXPECT_EQ(gradient_name(GradientOptions(Unrolled{})), "unrolled");
}

TEST(GradientOptionsTest, DefaultsAndBoundariesAreValid) {
  for (const GradientOptions& options :
       {GradientOptions(Implicit{}), GradientOptions(Truncated{.terms = 0}),
        GradientOptions(JacobianFree{}), GradientOptions(Phantom{.steps = 1, .tau = 1}),
        GradientOptions(Unrolled{.steps = 1})}) {
    EXPECT_NO_THROW(validate(options)) << gradient_name(options);
  }
}

TEST(GradientOptionsTest, MessagesNameFieldValueAndConstraint) {
  const auto expect = [](const GradientOptions& options, const char* message) {
    EXPECT_THAT([&] { validate(options); },
                ::testing::ThrowsMessage<Error>(::testing::StrEq(message)));
  };
  expect(Truncated{.terms = -1}, "truncated: terms = -1, must be ≥ 0");
  expect(Phantom{.steps = 0}, "phantom: steps = 0, must be ≥ 1");
  expect(Phantom{.tau = 0}, "phantom: tau = 0, must be in (0, 1]");
  expect(Phantom{.tau = 1.5}, "phantom: tau = 1.5, must be in (0, 1]");
  expect(Unrolled{.steps = 0}, "unrolled: steps = 0, must be ≥ 1");
  expect(Unrolled{.steps = 3, .backpropagated = 4},
         "unrolled: backpropagated = 4, must be 0 or one of the 3 steps");
  expect(Implicit{.solver = Anderson{.memory = 0}}, "anderson: memory = 0, must be ≥ 1");
}

}  // namespace
}  // namespace deq

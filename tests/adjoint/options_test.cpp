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
  EXPECT_EQ(gradient_name(GradientOptions(Shine{})), "shine");
  EXPECT_EQ(gradient_name(GradientOptions(Phantom{})), "phantom");
  EXPECT_EQ(gradient_name(GradientOptions(Unrolled{})), "unrolled");
  EXPECT_EQ(gradient_name(GradientOptions(Reversible{})), "reversible");
}

TEST(GradientOptionsTest, DefaultsAndBoundariesAreValid) {
  for (const GradientOptions& options :
       {GradientOptions(Implicit{}), GradientOptions(Truncated{.terms = 0}),
        GradientOptions(JacobianFree{}), GradientOptions(Phantom{.steps = 1, .tau = 1}),
        GradientOptions(Shine{}), GradientOptions(Shine{.refinement = Broyden{}}),
        GradientOptions(Unrolled{.steps = 1}), GradientOptions(Reversible{.steps = 1})}) {
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
  expect(Shine{.fallback = 0}, "shine: fallback = 0, must be > 0");
  expect(Shine{.refinement = Anderson{.memory = 0}}, "anderson: memory = 0, must be ≥ 1");
  expect(Reversible{.steps = 0}, "reversible: steps = 0, must be ≥ 1");
  expect(Reversible{.beta = 0}, "reversible: beta = 0, must be in (0, 1)");
  expect(Reversible{.beta = 1}, "reversible: beta = 1, must be in (0, 1)");
}

TEST(GradientOptionsTest, TheAdjointsBudgetIsTheSolversOfImplicitAndOfARefinedShine) {
  for (const GradientOptions& options :
       {GradientOptions(Implicit{.solver = Picard{.max_evals = 3}}),
        GradientOptions(Shine{.refinement = Picard{.max_evals = 3}})}) {
    ASSERT_NE(adjoint_solver(options), nullptr);
    EXPECT_EQ(max_evals(*adjoint_solver(options)), 3);
    const auto more = with_adjoint_evals(options, 7);
    EXPECT_EQ(gradient_name(more), gradient_name(options));
    EXPECT_EQ(max_evals(*adjoint_solver(more)), 7);
  }
  for (const GradientOptions& options :
       {GradientOptions(Shine{}), GradientOptions(Truncated{}), GradientOptions(Reversible{})}) {
    EXPECT_EQ(adjoint_solver(options), nullptr);
    EXPECT_THROW(with_adjoint_evals(options, 7), Error);
  }
}

}  // namespace
}  // namespace deq

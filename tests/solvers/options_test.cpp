#include "deq/solvers/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "deq/core/error.h"
#include "deq/solvers/solver.h"
#include "support/solver_cases.h"

namespace deq {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct OptionsCase {
  SolverOptions options;
  const char* message;
};

void PrintTo(const OptionsCase& c, std::ostream* out) {
  *out << c.message;
}

class RefusedOptions : public ::testing::TestWithParam<OptionsCase> {};

TEST_P(RefusedOptions, NameSolverFieldValueAndConstraint) {
  EXPECT_THAT([] { Solver solver(GetParam().options); },
              ::testing::ThrowsMessage<Error>(::testing::StrEq(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Common, RefusedOptions,
    ::testing::Values(
        OptionsCase{Picard{.tol = {.atol = -1}}, "picard: tol.atol = -1, must be ≥ 0"},
        OptionsCase{Anderson{.tol = {.rtol = -0.5}}, "anderson: tol.rtol = -0.5, must be ≥ 0"},
        OptionsCase{Broyden{.tol = {.rtol = kNaN}}, "broyden: tol.rtol = nan, must be ≥ 0"},
        OptionsCase{LimitedBroyden{.max_evals = 0}, "limited-broyden: max_evals = 0, must be ≥ 1"},
        OptionsCase{NewtonKrylov{.guards = {.stagnation_window = -3}},
                    "newton-krylov: guards.stagnation_window = -3, must be ≥ 0"},
        OptionsCase{Picard{.guards = {.divergence_factor = 1}},
                    "picard: guards.divergence_factor = 1, must be > 1"}));

INSTANTIATE_TEST_SUITE_P(
    Own, RefusedOptions,
    ::testing::Values(
        OptionsCase{Picard{.damping = 0}, "picard: damping = 0, must be in (0, 1]"},
        OptionsCase{Picard{.damping = 1.5}, "picard: damping = 1.5, must be in (0, 1]"},
        OptionsCase{Anderson{.memory = 0}, "anderson: memory = 0, must be ≥ 1"},
        OptionsCase{Anderson{.beta = 0}, "anderson: beta = 0, must be in (0, 1]"},
        OptionsCase{Anderson{.ridge = -1e-3}, "anderson: ridge = -0.001, must be ≥ 0"},
        OptionsCase{Anderson{.restart_factor = 1}, "anderson: restart_factor = 1, must be > 1"},
        OptionsCase{Broyden{.memory = 0}, "broyden: memory = 0, must be ≥ 1"},
        OptionsCase{LimitedBroyden{.memory = -1}, "limited-broyden: memory = -1, must be ≥ 1"},
        OptionsCase{NewtonKrylov{.krylov_dim = 0}, "newton-krylov: krylov_dim = 0, must be ≥ 1"},
        OptionsCase{NewtonKrylov{.forcing = 1}, "newton-krylov: forcing = 1, must be in [0, 1)"},
        OptionsCase{NewtonKrylov{.forcing = -0.5},
                    "newton-krylov: forcing = -0.5, must be in [0, 1)"}));

TEST(SolverOptionsTest, DefaultsAreValid) {
  for (const SolverOptions& options :
       {SolverOptions(Picard{}), SolverOptions(Anderson{}), SolverOptions(Broyden{}),
        SolverOptions(LimitedBroyden{}), SolverOptions(NewtonKrylov{})}) {
    EXPECT_NO_THROW(validate(options)) << solver_name(options);
  }
}

TEST(SolverOptionsTest, BoundariesAreValid) {
  EXPECT_NO_THROW(validate(Picard{.damping = 1, .tol = {.atol = 0, .rtol = 0}, .max_evals = 1}));
  EXPECT_NO_THROW(validate(Anderson{.memory = 1, .beta = 1, .ridge = 0}));
  EXPECT_NO_THROW(validate(NewtonKrylov{.krylov_dim = 1, .forcing = 0}));
  EXPECT_NO_THROW(validate(Broyden{.memory = 1, .guards = {.stagnation_window = 0}}));
}

TEST(SolverOptionsTest, AccessorsReadAndReplaceTheCommonFields) {
  for (const auto& options : test::every_solver({.atol = 0.25, .rtol = 0.5}, 17)) {
    EXPECT_EQ(tolerance(options).atol, 0.25);
    EXPECT_EQ(max_evals(options), 17);
    EXPECT_EQ(guards(options).stagnation_window, Guards{}.stagnation_window);
    const auto other =
        with_max_evals(with_tolerance(options, {.rtol = 0.125, .scope = NormScope::WholeBatch}), 3);
    EXPECT_EQ(other.index(), options.index());
    EXPECT_EQ(tolerance(other).rtol, 0.125);
    EXPECT_EQ(tolerance(other).scope, NormScope::WholeBatch);
    EXPECT_EQ(max_evals(other), 3);
    EXPECT_EQ(max_evals(options), 17);
  }
}

}  // namespace
}  // namespace deq

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "deq/core/error.h"
#include "deq/nn/equilibrium.h"
#include "deq/nn/fixed_point.h"
#include "support/cells.h"
#include "support/seed.h"

namespace deq {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kRows = 3, kWidth = 4;

/// The sentence of the Error that this throws.
template <class Misuse>
std::string refusal_of(const Misuse& misuse) {
  try {
    misuse();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

class CheckInputs : public test::Seeded {
 protected:
  CheckInputs() : problem_(test::cell_problem(kRows, kWidth, 0.5, generator_)) {}

  Equilibrated from(const torch::Tensor& start) {
    return Equilibrium(problem_.cell)->forward({problem_.x}, {.start = {start}});
  }

  test::CellProblem problem_;
};

TEST_F(CheckInputs, AStartOfAnotherShapeOrTypeIsNamedWithTheCellsOwn) {
  EXPECT_THAT(refusal_of([&] {
                from(torch::zeros({kRows, kWidth + 1}, torch::kFloat64));
              }),
              AllOf(HasSubstr("start"), HasSubstr("[3, 5]"), HasSubstr("[3, 4]")));
  EXPECT_THAT(refusal_of([&] {
                from(torch::zeros({kRows + 1, kWidth}, torch::kFloat64));
              }),
              AllOf(HasSubstr("[4, 4]"), HasSubstr("[3, 4]")));
  // It would broadcast: every sample has a state of its own all the same.
  EXPECT_THAT(refusal_of([&] {
                from(torch::zeros({1, kWidth}, torch::kFloat64));
              }),
              AllOf(HasSubstr("[1, 4]"), HasSubstr("[3, 4]")));
  EXPECT_THAT(refusal_of([&] {
                from(torch::zeros({kRows, kWidth}, torch::kFloat32));
              }),
              AllOf(HasSubstr("Float"), HasSubstr("Double")));
  EXPECT_THAT(refusal_of([&] {
                from(torch::zeros({kRows, kWidth}, torch::kInt64));
              }),
              HasSubstr("float32 or float64"));
  EXPECT_TRUE(from(torch::zeros({kRows, kWidth}, torch::kFloat64)).report.converged());
}

TEST_F(CheckInputs, UndefinedTensorsAreNamed) {
  EXPECT_THAT(refusal_of([&] { from(torch::Tensor()); }), HasSubstr("start 0 is an undefined"));
  EXPECT_THAT(refusal_of([&] { Equilibrium(problem_.cell)->forward(torch::Tensor()); }),
              HasSubstr("input 0 is an undefined"));
}

TEST_F(CheckInputs, AnInputOfAnotherTypeIsNamed) {
  EXPECT_THAT(
      refusal_of([&] { Equilibrium(problem_.cell)->forward(problem_.x.to(torch::kFloat)); }),
      AllOf(HasSubstr("input 0 is Float"), HasSubstr("Double")));
}

TEST_F(CheckInputs, ALayerNeedsACell) {
  EXPECT_THAT(refusal_of([] { Equilibrium layer(std::shared_ptr<Cell>{}); }), HasSubstr("cell"));
  EXPECT_THAT(refusal_of([] { Equilibrium layer(test::TanhCell{nullptr}); }), HasSubstr("module"));
}

TEST_F(CheckInputs, WhatAFunctionRefusesItselfStaysItsOwn) {
  const auto refuses = [](const torch::Tensor& z) { return torch::matmul(z, z); };
  EXPECT_THROW(fixed_point(refuses, torch::zeros({kRows, kWidth})), c10::Error);
}

TEST_F(CheckInputs, FixedPointsNeedAFunctionAndTensors) {
  const auto half = [](const torch::Tensor& z) { return 0.5 * z; };
  EXPECT_THAT(refusal_of([&] { fixed_point(half, torch::Tensor()); }), HasSubstr("undefined"));
  EXPECT_THAT(refusal_of([&] {
                fixed_point(half, torch::zeros({2, 2}, torch::kInt64));
              }),
              HasSubstr("float32 or float64"));
  EXPECT_THAT(refusal_of([] {
                fixed_point(std::function<State(const State&)>(), State{torch::zeros({2, 2})});
              }),
              HasSubstr("f is empty"));
}

}  // namespace
}  // namespace deq

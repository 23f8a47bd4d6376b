#include "deq/core/linearization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "core/jacobian_products.h"
#include "deq/core/error.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq {
namespace {

using test::f64;
using test::linearize;

class LinearizationTest : public test::Seeded {};

TEST_F(LinearizationTest, ProductIsThatOfTheDenseJacobian) {
  const auto problem = test::tanh_problem(3, 5, 0.9, generator_);
  const auto z = torch::randn({3, 5}, generator_, f64());
  const auto u = torch::randn({3, 5}, generator_, f64());
  const auto at = linearize(problem.map, z);
  EXPECT_EQ(at.batch(), 3);
  EXPECT_EQ(at.dim(), 5);
  const auto expected = torch::bmm(u.unsqueeze(1), problem.map.jacobian(z)).squeeze(1);
  EXPECT_LT(test::relative_difference(at.vjp(u), expected), 1e-14);
}

TEST_F(LinearizationTest, ProductsCanBeRepeated) {
  const auto problem = test::tanh_problem(2, 4, 0.9, generator_);
  const auto at = linearize(problem.map, problem.z_star);
  const auto u = torch::randn({2, 4}, generator_, f64());
  const auto first = at.vjp(u);
  EXPECT_TRUE(at.vjp(u).equal(first));
  EXPECT_FALSE(first.requires_grad());
}

TEST_F(LinearizationTest, ProductsEndWithBackwardAndASentence) {
  auto problem = test::tanh_problem(2, 4, 0.9, generator_);
  problem.map.w.requires_grad_();
  const auto at = linearize(problem.map, problem.z_star);
  products_of(at).f().sum().backward();
  const auto u = torch::ones({2, 4}, f64());
  EXPECT_THAT([&] { at.vjp(u); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("after backward()")));
}

TEST_F(LinearizationTest, DifferentiableProductHasAGraphToTheParameters) {
  auto problem = test::tanh_problem(2, 4, 0.9, generator_);
  problem.map.w.requires_grad_();
  const auto at = linearize(problem.map, problem.z_star);
  const auto product = at.vjp(torch::ones({2, 4}, f64()), /*differentiable=*/true);
  ASSERT_TRUE(product.requires_grad());
  // 1ᵀJ v is Σᵢⱼ (1 − fᵢ²) Wᵢⱼ vⱼ: linear in W except for the dependence of f on it.
  const auto gradient = torch::autograd::grad({product.sum()}, {problem.map.w})[0];
  const auto& z = problem.z_star;
  const auto slope = (1 - z.square()).detach();
  const auto row_sums = problem.map.w.detach().sum(1);
  const auto expected =
      slope.sum(0).unsqueeze(1).expand({4, 4}) + (-2 * z * slope * row_sums).t().mm(z);
  EXPECT_LT(test::relative_difference(gradient, expected), 1e-13);
}

TEST_F(LinearizationTest, ConstantMapHasZeroProducts) {
  const auto constant = torch::randn({2, 3}, generator_, f64());
  const auto u = torch::ones({2, 3}, f64());
  const auto detached = linearize([&](const torch::Tensor&) { return constant; }, constant);
  EXPECT_TRUE(detached.vjp(u).equal(torch::zeros({2, 3}, f64())));
  // The same with a parameter: f has a graph, but none to z.
  const auto parameter = constant.clone().requires_grad_();
  const auto attached = linearize([&](const torch::Tensor&) { return 2 * parameter; }, constant);
  EXPECT_TRUE(attached.vjp(u).equal(torch::zeros({2, 3}, f64())));
}

}  // namespace
}  // namespace deq

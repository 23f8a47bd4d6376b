#include "kernels/norms/sum_norm.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "core/format.h"
#include "derivatives.h"
#include "support/differences.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

struct SumNormCase {
  int64_t samples, tokens, features;
};

// 16 sums are taken side by side.
const SumNormCase kSumNormCases[] = {{3, 81, 64}, {2, 7, 5}, {1, 1, 1}, {5, 16, 33}, {2, 130, 17}};

class SumNormTest : public test::Seeded {
 protected:
  at::Tensor draw(const SumNormCase& c) {
    return torch::randn({c.samples, c.tokens, c.features}, generator_, torch::kFloat64);
  }
};

test::Operation own_norm(Over over) {
  return [over](const test::Variables& v) { return sum_norm(v[0], v[1], over); };
}
test::Operation plain_norm(Over over) {
  return [over](const test::Variables& v) {
    return std::get<0>(reference::sum_norm(v[0], v[1], over));
  };
}

TEST_F(SumNormTest, ItAndItsDerivativesAreTheReferences) {
  for (const auto& c : kSumNormCases) {
    for (const auto over : {Over::Features, Over::Tokens}) {
      SCOPED_TRACE(fmt::format("{} × {} × {}, {}", c.samples, c.tokens, c.features,
                               over == Over::Tokens ? "tokens" : "features"));
      const auto a = draw(c), b = draw(c);
      ASSERT_TRUE(sum_norm_serves(a, b, over));
      test::expect_derivatives(own_norm(over), plain_norm(over), {a, b}, draw(c));
    }
  }
}

/// The reference itself: rows have a mean square of 1, but for ε.
TEST_F(SumNormTest, EveryTokenOrEveryFeatureIsOfUnitSize) {
  const auto a = draw({2, 6, 9}), b = draw({2, 6, 9});
  for (const auto over : {Over::Features, Over::Tokens}) {
    const auto dim = over == Over::Features ? -1 : -2;
    const auto y = sum_norm(a, b, over);
    const auto square = (a + b).square().mean(dim, true);
    EXPECT_LT(test::relative_difference(y.square().mean(dim, true), square / (square + 1e-5)),
              1e-14);
    EXPECT_LT(test::relative_difference(y * (square + 1e-5).sqrt(), a + b), 1e-14);
  }
}

TEST_F(SumNormTest, GradientsAreThoseOfDifferencesAndSoAreTheirs) {
  const auto a = draw({2, 3, 5}).requires_grad_(), b = draw({2, 3, 5}).requires_grad_();
  const auto g = draw({2, 3, 5});
  for (const auto over : {Over::Features, Over::Tokens}) {
    const auto value = [&] { return (sum_norm(a, b, over) * g).sum(); };
    const auto gradient = [&] {
      const torch::AutoGradMode tape(true);  // differences are taken without one
      return torch::autograd::grad({value()}, {a}, {}, /*retain_graph=*/true,
                                   /*create_graph=*/true)[0];
    };
    const auto number = [](const at::Tensor& scalar) { return scalar.item<double>(); };
    EXPECT_LT(test::relative_difference(
                  gradient(), test::numeric_gradient([&] { return number(value()); }, a, 1e-4)),
              1e-7);
    const auto square = [&] { return gradient().square().sum(); };
    const auto second = torch::autograd::grad({square()}, {b})[0];
    EXPECT_LT(test::relative_difference(
                  second, test::numeric_gradient([&] { return number(square()); }, b, 1e-4)),
              1e-6);
  }
}

TEST_F(SumNormTest, DependsNotOnTheOtherSamples) {
  const auto a = draw({4, 9, 21}).to(at::kFloat), b = draw({4, 9, 21}).to(at::kFloat);
  for (const auto over : {Over::Features, Over::Tokens}) {
    const auto y = sum_norm(a, b, over);
    EXPECT_TRUE(sum_norm(a.narrow(0, 2, 1), b.narrow(0, 2, 1), over).equal(y.narrow(0, 2, 1)));
  }
}

TEST_F(SumNormTest, OtherTypesAreSummedInFloat32) {
  const auto a = draw({3, 5, 7}).to(at::kBFloat16), b = draw({3, 5, 7}).to(at::kBFloat16);
  for (const auto over : {Over::Features, Over::Tokens}) {
    EXPECT_FALSE(sum_norm_serves(a, b, over));
    const auto y = sum_norm(a, b, over);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    const auto wide = sum_norm(a.to(at::kFloat), b.to(at::kFloat), over);
    EXPECT_TRUE(y.equal(wide.to(at::kBFloat16)));
  }
}

}  // namespace
}  // namespace deq::kernels

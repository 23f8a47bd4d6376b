#include "kernels/recurrence/forget_pool.h"

#include <ATen/Parallel.h>
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

struct PoolCase {
  int64_t rows, positions, features;
};

// Blocks of 256 features with some left over, and one position, row or feature.
const PoolCase kPoolCases[] = {{3, 7, 5}, {1, 1, 1}, {2, 5, 300}, {4, 1, 9}, {1, 23, 257}};

/// h and the last state as one tensor.
at::Tensor together(const ForgetPool& pooled) {
  return at::cat({pooled.h, pooled.c.unsqueeze(1)}, 1);
}

at::Tensor own_pool(const test::Variables& v) {
  return together(forget_pool(v[0], v[1]));
}

at::Tensor plain_pool(const test::Variables& v) {
  return together(reference::forget_pool(v[0], v[1]));
}

class ForgetPoolTest : public test::Seeded {
 protected:
  at::Tensor draw(at::IntArrayRef shape) {
    return torch::randn(shape, generator_, torch::kFloat64);
  }

  /// y and the start.
  test::Variables variables(const PoolCase& c) {
    return {2 * draw({c.rows, c.positions, 3 * c.features}), draw({c.rows, c.features})};
  }
};

TEST_F(ForgetPoolTest, ItAndItsDerivativesAreThoseOfTheLoop) {
  for (const auto& c : kPoolCases) {
    SCOPED_TRACE(fmt::format("{} × {} × {}", c.rows, c.positions, c.features));
    test::expect_derivatives(own_pool, plain_pool, variables(c),
                             draw({c.rows, c.positions + 1, c.features}));
  }
}

TEST_F(ForgetPoolTest, InFloat64ItIsTheFormula) {
  const auto v = variables({2, 3, 4});
  const auto pooled = forget_pool(v[0], v[1]);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t i = 0; i < 4; ++i) {
      const auto y = [&](int64_t t, int64_t part) {
        return v[0][row][t][4 * part + i].item<double>();
      };
      const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
      auto c = v[1][row][i].item<double>();
      for (int64_t t = 0; t < 3; ++t) {
        const double f = sigmoid(y(t, 1));
        c = f * c + (1 - f) * std::tanh(y(t, 0));
        EXPECT_NEAR(pooled.h[row][t][i].item<double>(), sigmoid(y(t, 2)) * c, 1e-14);
      }
      EXPECT_NEAR(pooled.c[row][i].item<double>(), c, 1e-14);
    }
  }
}

TEST_F(ForgetPoolTest, GradientsAreThoseOfFiniteDifferences) {
  auto v = test::leaves(variables({2, 4, 3}), at::kDouble);
  const auto g = draw({2, 5, 3});
  const auto gradients = torch::autograd::grad({own_pool(v)}, v, {g});
  const auto loss = [&] { return (own_pool(v) * g).sum().item<double>(); };
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < v.size(); ++i) {
    EXPECT_LT(test::largest_entry(gradients[i] - test::numeric_gradient(loss, v[i])), 1e-9) << i;
  }
}

TEST_F(ForgetPoolTest, TwoPartsWithTheStateBetweenAreTheWhole) {
  const auto v = test::leaves(variables({3, 9, 260}), at::kFloat);
  const auto g = draw({3, 10, 260}).to(at::kFloat);
  const auto whole = own_pool(v);
  const auto first = forget_pool(v[0].narrow(1, 0, 4), v[1]);
  const auto second = forget_pool(v[0].narrow(1, 4, 5), first.c);
  const auto parts = at::cat({first.h, together(second)}, 1);
  EXPECT_TRUE(parts.equal(whole));
  const auto expected = torch::autograd::grad({whole}, v, {g});
  const auto found = torch::autograd::grad({parts}, v, {g});
  for (size_t i = 0; i < v.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

TEST_F(ForgetPoolTest, ResultsDependNeitherOnThreadsNorOnOtherRowsNorOnTheTape) {
  const auto v = test::leaves(variables({5, 40, 700}), at::kFloat);
  const auto g = draw({5, 41, 700}).to(at::kFloat);
  const auto all = own_pool(v);
  const auto gradients = torch::autograd::grad({all}, v, {g});
  const int threads = at::get_num_threads();
  at::set_num_threads(threads == 1 ? 2 : 1);
  EXPECT_TRUE(own_pool(v).equal(all));
  const auto again = torch::autograd::grad({own_pool(v)}, v, {g});
  at::set_num_threads(threads);
  for (size_t i = 0; i < v.size(); ++i) EXPECT_TRUE(again[i].equal(gradients[i])) << i;
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(own_pool(v).equal(all));
  EXPECT_TRUE(own_pool({v[0].narrow(0, 3, 1), v[1].narrow(0, 3, 1)}).equal(all.narrow(0, 3, 1)));
}

TEST_F(ForgetPoolTest, NothingIsPooledToNothing) {
  for (const auto& c : {PoolCase{0, 3, 4}, PoolCase{2, 0, 4}}) {
    const auto v = test::leaves(variables(c), at::kFloat);
    const auto pooled = forget_pool(v[0], v[1]);
    EXPECT_EQ(pooled.h.sizes(), (std::vector<int64_t>{c.rows, c.positions, 4}));
    EXPECT_TRUE(pooled.c.equal(v[1]));
    const auto gradients = torch::autograd::grad({pooled.h.sum() + 3 * pooled.c.sum()}, v);
    EXPECT_EQ(gradients[0].sizes(), v[0].sizes());
    EXPECT_TRUE(gradients[1].equal(torch::full_like(v[1], 3)));
  }
}

TEST_F(ForgetPoolTest, ItIsFiniteForAllNumbersAndKeepsNaN) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto numbers = torch::tensor({-3e4, -90.0, -1e-20, 0.0, 90.0, 3e4}, type);
    const auto y = numbers.repeat({3}).view({1, 1, 18});
    const auto v = test::leaves({y, torch::ones({1, 6}, type)}, type);
    const auto pooled = own_pool(v);
    EXPECT_LT(test::relative_difference(pooled, plain_pool(v)), 1e-6);
    for (const auto& gradient : torch::autograd::grad({pooled.sum()}, v)) {
      EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    }
    const torch::NoGradGuard no_grad;
    for (int64_t part = 0; part < 3; ++part) {
      auto spoilt = torch::zeros({1, 2, 3}, type);
      spoilt[0][0][part] = std::nan("");
      const auto h = forget_pool(spoilt, torch::ones({1, 1}, type)).h;
      EXPECT_TRUE(h[0][0].isnan().all().item<bool>()) << part;
      EXPECT_EQ(h[0][1].isnan().all().item<bool>(), part < 2) << "the output gate leaves no trace";
    }
  }
}

TEST_F(ForgetPoolTest, OnTheCpuFewerDigitsAreComputedWithInFloat32) {
  const auto v = variables({2, 6, 10});
  const auto y = v[0].to(at::kBFloat16).requires_grad_();
  const auto pooled = forget_pool(y, v[1].to(at::kFloat));
  EXPECT_EQ(pooled.h.scalar_type(), at::kFloat);
  EXPECT_TRUE(pooled.h.equal(forget_pool(y.to(at::kFloat), v[1].to(at::kFloat)).h));
  EXPECT_EQ(torch::autograd::grad({pooled.h.sum()}, {y})[0].scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace deq::kernels

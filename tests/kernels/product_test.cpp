#include "kernels/common/product.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

#include "derivatives.h"
#include "kernels/common/affine.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

class ProductTest : public test::Seeded {
 protected:
  at::Tensor draw(int64_t rows, int64_t columns) {
    return torch::randn({rows, columns}, generator_);
  }
  /// The same numbers in another order, or in a larger matrix.
  static std::vector<at::Tensor> layouts(const at::Tensor& x) {
    const auto wide = torch::full({x.size(0) + 3, x.size(1) + 5}, 1e9);
    const auto part = wide.narrow(0, 2, x.size(0)).narrow(1, 3, x.size(1)).copy_(x);
    return {x, x.t().contiguous().t(), part, part.t().contiguous().t()};
  }
};

struct ProductCase {
  int64_t rows, depth, columns;
};
// Panels have 48, 32, 16 or 8 columns (24, 16 or 8 with AVX2) and at most 256 rows; rows of the
// first factor are taken 256 at a time, and these by eights (fours).
const ProductCase kProductCases[] = {{8, 1, 1},     {9, 3, 7},      {16, 8, 8},    {12, 17, 48},
                                     {33, 40, 55},  {64, 256, 24},  {20, 257, 90}, {257, 30, 16},
                                     {300, 513, 9}, {270, 300, 100}};

TEST_F(ProductTest, IsThatOfMatricesInAllOrders) {
  for (const auto& c : kProductCases) {
    const auto a = draw(c.rows, c.depth), b = draw(c.depth, c.columns);
    const auto expected = a.to(at::kDouble).mm(b.to(at::kDouble));
    // The classical bound of rounding in sums of so many products.
    const auto bound = 6e-8 * static_cast<double>(c.depth + 1) *
                       a.abs().to(at::kDouble).mm(b.abs().to(at::kDouble));
    for (const auto& left : layouts(a)) {
      for (const auto& right : layouts(b)) {
        SCOPED_TRACE(::testing::Message() << c.rows << "×" << c.depth << "×" << c.columns << ", "
                                          << left.strides() << ", " << right.strides());
        ASSERT_TRUE(cpu::own_product_serves(left, right));
        const auto whole = torch::full({c.rows + 2, c.columns + 4}, 7.0F);
        const auto to = whole.narrow(0, 1, c.rows).narrow(1, 3, c.columns);
        cpu::own_product(to, left, right, /*add=*/false);
        EXPECT_TRUE((to.to(at::kDouble) - expected).abs().le(bound).all().item<bool>());
        cpu::own_product(to, left, right, /*add=*/true);
        EXPECT_TRUE((to.to(at::kDouble) - 2 * expected).abs().le(4 * bound).all().item<bool>());
        // Nothing beside it was written.
        to.fill_(7.0F);
        EXPECT_TRUE(whole.eq(7.0F).all().item<bool>());
      }
    }
  }
}

TEST_F(ProductTest, ARowDependsOnItselfAlone) {
  const auto a = draw(300, 270), b = draw(270, 61);
  const auto all = torch::empty({300, 61}), some = torch::empty({9, 61});
  cpu::own_product(all, a, b, false);
  for (const int64_t first : {0, 5, 250, 291}) {
    cpu::own_product(some, a.narrow(0, first, 9), b, false);
    EXPECT_TRUE(some.equal(all.narrow(0, first, 9))) << first;
  }
  // Also where threads get fewer rows than are worth it alone.
  const auto few = a.narrow(0, 0, 17), wide = draw(270, 6000);
  const auto threads = at::get_num_threads();
  const auto alone = torch::empty({17, 6000}), shared = torch::empty({17, 6000});
  cpu::own_product(alone, few, wide, false);
  at::set_num_threads(3);
  multiply_in_parallel(shared, few, wide);
  at::set_num_threads(threads);
  if (cpu::own_products_pay()) {
    EXPECT_TRUE(shared.equal(alone));
  }
}

TEST_F(ProductTest, SamplesHaveTheirOwnAndTheSumOfAll) {
  const auto threads = at::get_num_threads();
  for (const int64_t samples : {1, 5, 16, 37}) {
    for (const bool shared : {false, true}) {
      SCOPED_TRACE(::testing::Message() << samples << (shared ? " with one matrix" : " matrices"));
      const auto depth = 20;
      const auto a = shared ? draw(24, depth).expand({samples, 24, depth})
                            : draw(samples * depth, 24).view({samples, depth, 24}).mT();
      const auto b = draw(samples * 9, depth).view({samples, 9, depth}).mT();
      const auto exact = a.to(at::kDouble).bmm(b.to(at::kDouble));
      const auto bound = 6e-8 * (depth + 1) * a.abs().to(at::kDouble).bmm(b.abs().to(at::kDouble));
      const auto found = products(a, b);
      EXPECT_TRUE((found.to(at::kDouble) - exact).abs().le(bound).all().item<bool>());
      const auto sum = summed_products(a, b);
      EXPECT_TRUE((sum.to(at::kDouble) - exact.sum(0))
                      .abs()
                      .le(static_cast<double>(samples) * bound.sum(0))
                      .all()
                      .item<bool>());
      at::set_num_threads(3);
      const auto again = products(a, b), sum_again = summed_products(a, b);
      at::set_num_threads(threads);
      if (cpu::own_products_pay()) {
        EXPECT_TRUE(again.equal(found) && sum_again.equal(sum)) << "threads make no difference";
      }
    }
  }
  EXPECT_TRUE(
      summed_products(torch::empty({0, 9, 8}), torch::empty({0, 8, 3})).eq(0).all().item<bool>());
  EXPECT_EQ(products(torch::empty({0, 9, 8}), torch::empty({0, 8, 3})).numel(), 0);
}

TEST_F(ProductTest, ALinearMapIsTorchs) {
  const auto weight = draw(12, 20), bias = draw(1, 12).squeeze(0);
  for (const auto& x : {draw(9, 20), torch::randn({3, 7, 20}, generator_),
                        torch::randn({7, 3, 20}, generator_).transpose(0, 1),
                        torch::randn({20}, generator_), torch::randn({2, 0, 20}, generator_)}) {
    for (const auto& b : {bias, at::Tensor()}) {
      const auto expected = torch::linear(x, weight, b);
      const auto found = linear(x, weight, b);
      EXPECT_TRUE(found.sizes() == expected.sizes());
      EXPECT_TRUE(found.allclose(expected, 1e-4, 1e-4)) << x.sizes();
    }
  }
}

TEST_F(ProductTest, WhatIsNotFiniteStays) {
  const auto a = draw(10, 20), b = draw(20, 13);
  a[4][7] = std::numeric_limits<float>::quiet_NaN();
  b[2][11] = std::numeric_limits<float>::infinity();
  const auto c = torch::empty({10, 13});
  cpu::own_product(c, a, b, false);
  EXPECT_TRUE(c[4].isnan().all().item<bool>());
  EXPECT_FALSE(c.select(1, 11).isfinite().any().item<bool>());
  EXPECT_EQ(c.isfinite().sum().item<int64_t>(), 9 * 12);
}

TEST_F(ProductTest, OtherMatricesAreTorchs) {
  const auto a = draw(10, 20);
  EXPECT_FALSE(cpu::own_product_serves(a.to(at::kDouble), a.t().to(at::kDouble)));
  EXPECT_FALSE(cpu::own_product_serves(draw(2, 20), a.t()));
  const auto sparse = draw(20, 40).slice(0, 0, 20, 2).slice(1, 0, 40, 2), b = draw(20, 5);
  EXPECT_FALSE(cpu::own_product_serves(sparse, b));
  EXPECT_FALSE(cpu::own_product_serves(draw(10, 0), draw(0, 5)));
  EXPECT_TRUE(affine(sparse, b).equal(at::mm(sparse, b)));
  EXPECT_THROW(affine(a, b.t()), c10::Error);  // [10, 20] and [5, 20]
  EXPECT_TRUE(affine(draw(10, 0), draw(0, 5)).eq(0).all().item<bool>());
}

TEST_F(ProductTest, AnAffineMapAndItsDerivativesAreTorchs) {
  const auto numbers = [&](at::IntArrayRef shape) {
    return torch::randn(shape, generator_, torch::kFloat64);
  };
  // The weights transposed, as a model has them.
  for (const auto& b : {numbers({30}), numbers({1, 30}), numbers({40, 30})}) {
    test::expect_derivatives([](const test::Variables& v) { return affine(v[0], v[1], v[2]); },
                             [](const test::Variables& v) { return at::addmm(v[2], v[0], v[1]); },
                             {numbers({40, 12}), numbers({30, 12}).t(), b}, numbers({40, 30}));
  }
}

}  // namespace
}  // namespace deq::kernels

#include <gtest/gtest.h>

#include <limits>

#include "solvers/arnoldi.h"
#include "solvers/cholesky.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq {
namespace {

using test::f64;

std::vector<double> numbers(const torch::Tensor& tensor) {
  return {tensor.data_ptr<double>(), tensor.data_ptr<double>() + tensor.numel()};
}

class SmallSystems : public test::Seeded {};

TEST_F(SmallSystems, CholeskySolvesPositiveDefiniteSystems) {
  for (int64_t n = 1; n <= 9; ++n) {
    const auto root = torch::randn({n, n + 2}, generator_, f64());
    const auto m = root.mm(root.t());
    const auto expected = torch::randn({n}, generator_, f64());
    const auto rhs = torch::mv(m, expected);
    auto a = numbers(m), x = numbers(rhs);
    ASSERT_TRUE(solve_positive_definite(a.data(), x.data(), n)) << n;
    const auto cond = torch::linalg_cond(m).item<double>();
    EXPECT_LT(test::relative_difference(torch::tensor(x, f64()), expected), 1e-15 * 10 * cond) << n;
  }
}

TEST_F(SmallSystems, CholeskyRefusesWhatIsNotPositiveDefinite) {
  const auto refuses = [](const torch::Tensor& m) {
    auto a = numbers(m);
    std::vector<double> b(static_cast<size_t>(m.size(0)), 1.0);
    return !solve_positive_definite(a.data(), b.data(), m.size(0));
  };
  EXPECT_TRUE(refuses(torch::zeros({2, 2}, f64())));
  EXPECT_TRUE(refuses(torch::ones({3, 3}, f64())));  // rank 1
  EXPECT_TRUE(refuses(torch::tensor({1.0, 2.0, 2.0, 1.0}, f64()).view({2, 2})));
  EXPECT_TRUE(refuses(torch::full({1, 1}, std::numeric_limits<double>::quiet_NaN(), f64())));
  EXPECT_TRUE(refuses(torch::full({1, 1}, -1.0, f64())));
}

class Arnoldi : public test::Seeded {
 protected:
  static constexpr int64_t kBatch = 3, kDim = 40;
  torch::Tensor draw() { return torch::randn({kBatch, kDim}, generator_, f64()); }
  static ArnoldiColumn split(const std::vector<torch::Tensor>& basis, const torch::Tensor& v) {
    return orthonormalise(basis, v, [] { return torch::empty({kBatch, kDim}, f64()); });
  }
  /// Orthonormal rows for every sample.
  std::vector<torch::Tensor> draw_basis(int64_t count) {
    const auto q =
        std::get<0>(torch::linalg_qr(torch::randn({kBatch, kDim, count}, generator_, f64())));
    std::vector<torch::Tensor> basis;
    for (int64_t i = 0; i < count; ++i) basis.push_back(q.select(2, i).contiguous());
    return basis;
  }
};

TEST_F(Arnoldi, SplitsAVectorExactly) {
  const auto basis = draw_basis(5);
  const auto v = draw();
  const auto column = split(basis, v);
  for (int64_t b = 0; b < kBatch; ++b) {
    const auto sample = static_cast<size_t>(b);
    auto rebuilt = column.below[sample] * column.unit[b];
    for (size_t i = 0; i < basis.size(); ++i) {
      rebuilt = rebuilt + column.dots[sample][i] * basis[i][b];
      EXPECT_LT(std::abs(column.unit[b].dot(basis[i][b]).item<double>()), 1e-15);
    }
    EXPECT_LT(test::relative_difference(rebuilt, v[b]), 1e-14);
    EXPECT_NEAR(column.unit[b].norm().item<double>(), 1.0, 1e-14);
  }
}

TEST_F(Arnoldi, StaysOrthogonalWhereOnePassWouldNot) {
  // All except 1e-9 of the vector lies in the span: one Gram–Schmidt pass leaves an error of 1e-7.
  const auto basis = draw_basis(4);
  const auto v = basis[0] + 2 * basis[3] + 1e-6 * draw();
  const auto column = split(basis, v);
  for (int64_t b = 0; b < kBatch; ++b) {
    for (const auto& row : basis) {
      EXPECT_LT(std::abs(column.unit[b].dot(row[b]).item<double>()), 1e-14);
    }
  }
}

TEST_F(Arnoldi, DependentAndNonFiniteVectorsGiveZeroForThatSample) {
  const auto basis = draw_basis(3);
  auto v = draw();
  v[0].copy_(basis[0][0] - 3 * basis[2][0]);
  v[1].fill_(std::numeric_limits<double>::quiet_NaN());
  const auto column = split(basis, v);
  EXPECT_EQ(column.below[0], 0.0);
  EXPECT_TRUE(column.unit.narrow(0, 0, 2).equal(torch::zeros({2, kDim}, f64())));
  EXPECT_FALSE(std::isfinite(column.below[1]));
  EXPECT_NEAR(column.unit[2].norm().item<double>(), 1.0, 1e-14);
}

}  // namespace
}  // namespace deq

#include "models/monotone/operator.h"

#include <gtest/gtest.h>

#include "monotone_dense.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;
using test::relative_difference;

constexpr double kStrength = 0.3;

struct MonotoneOperatorCase {
  std::vector<int64_t> sizes, channels;
};

/// Every kind of size a tier may have; one below another is half of it and one more.
const MonotoneOperatorCase kMonotoneOperatorCases[] = {{{3}, {2}},
                                                       {{6}, {3}},
                                                       {{7}, {2}},
                                                       {{6, 4}, {2, 3}},
                                                       {{8, 5}, {3, 2}},
                                                       {{6, 4, 3}, {2, 3, 4}},
                                                       {{10, 6, 4}, {1, 2, 1}}};

class MonotoneOperator : public test::Seeded {
 protected:
  std::vector<MonotoneTier> tiers(const MonotoneOperatorCase& which) {
    std::vector<MonotoneTier> made;
    for (size_t i = 0; i < which.sizes.size(); ++i) {
      const auto draw = [&](int64_t out) {
        return 0.4 * torch::randn({out, which.channels[i], 3, 3}, generator_, f64());
      };
      const auto b = draw(which.channels[i]);
      auto& tier = made.emplace_back();
      tier.a = draw(which.channels[i]);
      tier.a_transpose = transposed_kernel(tier.a);
      tier.skew = b - transposed_kernel(b);
      if (i + 1 < which.sizes.size()) tier.down = draw(which.channels[i + 1]);
    }
    return made;
  }
  /// All unit vectors, as a batch of states.
  static State basis(const MonotoneOperatorCase& which) {
    State shapes;
    for (size_t i = 0; i < which.sizes.size(); ++i) {
      shapes.push_back(torch::zeros({1, which.channels[i], which.sizes[i], which.sizes[i]}, f64()));
    }
    const auto layout = StateLayout::of(shapes);
    return layout.unpack(torch::eye(layout.dim(), f64()));
  }
  /// The matrix whose columns are the images of the unit vectors.
  static torch::Tensor matrix(const State& images) {
    return StateLayout::of(images).pack(images).t();
  }
};

TEST_F(MonotoneOperator, ATransposedKernelIsTheTransposedMatrix) {
  const auto kernel = torch::randn({2, 3, 3, 3}, generator_, f64());
  EXPECT_LT(relative_difference(test::convolution_matrix(transposed_kernel(kernel), 5),
                                test::convolution_matrix(kernel, 5).t()),
            1e-14);
}

TEST_F(MonotoneOperator, IsStronglyMonotoneAndLowerTriangular) {
  for (const auto& which : kMonotoneOperatorCases) {
    const auto m = matrix(monotone_product(tiers(which), kStrength, basis(which)));
    const auto smallest = torch::linalg_eigvalsh((m + m.t()) / 2).min().item<double>();
    EXPECT_GE(smallest, kStrength - 1e-12) << ::testing::PrintToString(which.sizes);
    // It would be monotone without A and B as well.
    EXPECT_GT(
        (m + m.t()).sub(2 * kStrength * torch::eye(m.size(0), f64())).abs().max().item<double>(),
        0.1);
    EXPECT_GT((m - m.t()).abs().max().item<double>(), 0.1);
    const auto first = which.channels[0] * which.sizes[0] * which.sizes[0];
    if (first == m.size(0)) continue;
    EXPECT_EQ(m.narrow(1, first, m.size(0) - first).narrow(0, 0, first).abs().max().item<double>(),
              0);
    EXPECT_GT(m.narrow(0, first, m.size(0) - first).narrow(1, 0, first).abs().max().item<double>(),
              0.1);
  }
}

TEST_F(MonotoneOperator, TheInverseIsTheInverse) {
  for (const auto& which : kMonotoneOperatorCases) {
    for (const double alpha : {0.1, 1.0, 7.0}) {
      auto made = tiers(which);
      add_inverse(made, kStrength, alpha, which.sizes);
      const auto unit = basis(which);
      const auto product = monotone_product(made, kStrength, unit);
      State right;
      for (size_t i = 0; i < unit.size(); ++i) right.push_back(unit[i] + alpha * product[i]);
      const auto result = matrix(monotone_inverse(made, alpha, right));
      EXPECT_LT((result - torch::eye(result.size(0), f64())).abs().max().item<double>(), 1e-12)
          << ::testing::PrintToString(which.sizes) << ", alpha " << alpha;
    }
  }
}

}  // namespace
}  // namespace deq::models

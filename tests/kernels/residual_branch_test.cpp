#include "kernels/images/residual_branch.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "derivatives.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

struct BranchCase {
  int64_t in, inner, out, groups, height, width;
  bool affine;
};
// 16 tiles of 4 × 4 pixels at least; sizes that tiles, blocks of tiles and panels do not divide.
const BranchCase kBranchCases[] = {
    {8, 16, 8, 4, 16, 16, false}, {24, 120, 24, 8, 17, 14, true}, {8, 40, 16, 5, 30, 9, true}};

std::ostream& operator<<(std::ostream& out, const BranchCase& c) {
  return out << c.in << " → " << c.inner << " → " << c.out << ", " << c.height << "×" << c.width
             << (c.affine ? ", affine" : "");
}

class ResidualBranchTest : public test::Seeded {
 protected:
  // Where threads are many the kernel leaves few samples to others.
  ResidualBranchTest() { at::set_num_threads(2); }
  ~ResidualBranchTest() override { at::set_num_threads(threads_); }

  at::Tensor draw(at::IntArrayRef shape, double spread = 1) {
    return torch::randn(shape, generator_, torch::kFloat64) * spread;
  }
  /// x and the weights, and those of the norm where it has them.
  test::Variables variables(const BranchCase& c, int64_t batch = 5) {
    test::Variables v{
        draw({batch, c.in, c.height, c.width}),
        draw({c.inner, c.in, 3, 3}, 1 / std::sqrt(9.0 * static_cast<double>(c.in))),
        draw({c.out, c.inner, 3, 3}, 1 / std::sqrt(9.0 * static_cast<double>(c.inner)))};
    if (c.affine) {
      v.push_back(draw({c.inner}));
      v.push_back(draw({c.inner}));
    }
    return v;
  }

 private:
  int threads_ = at::get_num_threads();
};

BranchWeights weights_of(const BranchCase& c, const test::Variables& v) {
  BranchWeights weights{.first = v[1], .groups = c.groups, .second = v[2]};
  if (c.affine) weights.norm_weight = v[3], weights.norm_bias = v[4];
  return weights;
}

test::Operation branch(const BranchCase& c,
                       at::Tensor (*f)(const at::Tensor&, const BranchWeights&)) {
  return [c, f](const test::Variables& v) { return f(v[0], weights_of(c, v)); };
}

test::Variables in_float(const test::Variables& v) {
  return test::leaves(v, at::kFloat);
}

TEST_F(ResidualBranchTest, ItAndItsDerivativesAreThoseOfItsParts) {
  for (const auto& c : kBranchCases) {
    SCOPED_TRACE(::testing::Message() << c);
    const auto given = variables(c);
    const auto narrow = in_float(given);
    ASSERT_TRUE(cpu::residual_branch_serves(narrow[0], weights_of(c, narrow)));
    test::expect_derivatives(branch(c, residual_branch), branch(c, reference::residual_branch),
                             given, draw({5, c.out, c.height, c.width}));
  }
}

TEST_F(ResidualBranchTest, HasTheBitsOfItsParts) {
  for (const auto& c : kBranchCases) {
    SCOPED_TRACE(::testing::Message() << c);
    const auto v = in_float(variables(c));
    const auto weights = weights_of(c, v);
    const auto y = residual_branch(v[0], weights),
               parts = reference::residual_branch(v[0], weights);
    EXPECT_TRUE(y.equal(parts));
    const auto g = draw(y.sizes()).to(at::kFloat);
    // For x alone, where the way back is one kernel, too.
    const auto own = torch::autograd::grad({y}, {v[0]}, {g}, /*retain_graph=*/true)[0];
    EXPECT_TRUE(own.equal(torch::autograd::grad({parts}, {v[0]}, {g}, /*retain_graph=*/true)[0]));
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(residual_branch(v[0], weights).equal(parts));
    // A sample alone, and one in a slab.
    EXPECT_TRUE(residual_branch(v[0].narrow(0, 3, 1), weights).equal(parts.narrow(0, 3, 1)));
    const auto size = c.in * c.height * c.width;
    const auto slab = torch::zeros({5, size + 3});
    const auto part = slab.narrow(1, 2, size)
                          .view({5, c.height, c.width, c.in})
                          .permute({0, 3, 1, 2})
                          .copy_(v[0]);
    EXPECT_TRUE(residual_branch(part, weights).equal(parts));
  }
}

TEST_F(ResidualBranchTest, WhereTheKernelDoesNotServeItIsItsParts) {
  const BranchCase c{8, 16, 8, 4, 16, 16, true};
  const auto v = in_float(variables(c));
  const auto weights = weights_of(c, v);
  EXPECT_FALSE(cpu::residual_branch_serves(v[0].narrow(0, 0, 3), weights));  // samples
  EXPECT_FALSE(cpu::residual_branch_serves(v[0].narrow(2, 0, 8), weights));  // tiles
  EXPECT_FALSE(cpu::residual_branch_serves(v[0].to(at::kDouble), weights));  // type
  const auto wide = variables(c);
  EXPECT_TRUE(residual_branch(wide[0], weights_of(c, wide))
                  .equal(reference::residual_branch(wide[0], weights_of(c, wide))));
}

}  // namespace
}  // namespace deq::kernels

#include "kernels/recurrence/forget_pool.h"

#include <cmath>

#include "core/format.h"
#include "gpu_test.h"
#include "kernels/derivatives.h"

namespace deq::kernels {
namespace {

using test::distance;
using test::largest;

struct PoolCase {
  int64_t rows, positions, features;
};

// Chunks of 4 positions with some left over, blocks of 128 threads with some left over, an odd
// number of features.
const std::vector<PoolCase> kPoolCases{{3, 7, 5},   {1, 1, 1},     {2, 4, 300},
                                       {20, 9, 34}, {5, 150, 400}, {1, 23, 257}};

class ForgetPoolCudaTest : public test::GpuTest {
 protected:
  /// y and the start.
  test::Variables variables(const PoolCase& c, at::ScalarType type) {
    return {draw({c.rows, c.positions, 3 * c.features}, type), draw({c.rows, c.features}, type)};
  }
};

/// h and the last state as one tensor, of the states' type.
at::Tensor together(const ForgetPool& pooled) {
  return at::cat({pooled.h.to(pooled.c.scalar_type()), pooled.c.unsqueeze(1)}, 1);
}

at::Tensor own_pool(const test::Variables& v) {
  return together(forget_pool(v[0], v[1]));
}

at::Tensor plain_pool(const test::Variables& v) {
  return together(reference::forget_pool(v[0], v[1]));
}

TEST_F(ForgetPoolCudaTest, ItAndItsDerivativesAreThoseOfTheLoopInFloat64) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const auto& c : test::thinned(kPoolCases)) {
      SCOPED_TRACE(fmt::format("{}, {} × {} × {}", type, c.rows, c.positions, c.features));
      const auto v = variables(c, type);
      const auto g = draw({c.rows, c.positions + 1, c.features}, type);
      const auto states = type == at::kDouble ? at::kDouble : at::kFloat;
      const auto found =
          test::derivatives(own_pool, test::leaves(v, type), test::leaves({g}, states).front());
      const auto expected = test::derivatives(plain_pool, test::leaves(v, at::kDouble),
                                              test::leaves({g}, at::kDouble).front());
      ASSERT_EQ(found.size(), expected.size());
      const double unit = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 0x1p-5;
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_LE(distance(found[i], expected[i]), unit * (1 + largest(expected[i]))) << i;
      }
    }
  }
}

TEST_F(ForgetPoolCudaTest, OfBFloat16StatesAreSummedInFloat32) {
  const auto v = variables({4, 600, 130}, at::kBFloat16);
  const auto pooled = forget_pool(v[0], v[1]);
  EXPECT_EQ(pooled.h.scalar_type(), at::kBFloat16);
  EXPECT_EQ(pooled.c.scalar_type(), at::kFloat);
  const auto exact = reference::forget_pool(v[0].to(at::kDouble), v[1].to(at::kDouble));
  EXPECT_LE(distance(pooled.c, exact.c), 1e-5);
  EXPECT_LE(distance(pooled.h, exact.h), 0x1p-8 * largest(exact.h));  // one rounding
}

TEST_F(ForgetPoolCudaTest, TwoPartsWithTheStateBetweenAreTheWhole) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto v = test::leaves(variables({3, 11, 66}, type), type);
    const auto whole = own_pool(v);
    const auto g = draw({3, 12, 66}).to(whole.scalar_type());
    const auto first = forget_pool(v[0].narrow(1, 0, 5), v[1]);
    const auto second = forget_pool(v[0].narrow(1, 5, 6), first.c);
    const auto parts = at::cat({first.h.to(second.c.scalar_type()), together(second)}, 1);
    EXPECT_TRUE(parts.equal(whole));
    const auto expected = torch::autograd::grad({whole}, v, {g});
    const auto found = torch::autograd::grad({parts}, v, {g});
    for (size_t i = 0; i < v.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
  }
}

TEST_F(ForgetPoolCudaTest, RowsDoNotDependOnOthersNorOnHowTheyLie) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto v = variables({6, 10, 36}, type);
    const auto all = own_pool(v);
    EXPECT_TRUE(own_pool(v).equal(all));
    EXPECT_TRUE(own_pool({v[0].narrow(0, 2, 1), v[1].narrow(0, 2, 1)}).equal(all.narrow(0, 2, 1)));
    const auto memory = draw({1 + v[0].numel()}, type);
    const auto odd = memory.narrow(0, 1, v[0].numel()).view(v[0].sizes()).copy_(v[0]);
    EXPECT_TRUE(own_pool({odd, v[1]}).equal(all));
    const auto turned = v[0].transpose(0, 1).contiguous().transpose(0, 1);
    EXPECT_TRUE(own_pool({turned, v[1]}).equal(all));
  }
}

TEST_F(ForgetPoolCudaTest, NothingIsPooledToNothing) {
  for (const auto& c : {PoolCase{0, 3, 4}, PoolCase{2, 0, 4}}) {
    const auto v = test::leaves(variables(c, at::kFloat), at::kFloat);
    const auto pooled = forget_pool(v[0], v[1]);
    EXPECT_TRUE(pooled.c.equal(v[1]));
    const auto gradients = torch::autograd::grad({pooled.h.sum() + 3 * pooled.c.sum()}, v);
    EXPECT_TRUE(gradients[1].equal(torch::full_like(v[1], 3)));
  }
}

TEST_F(ForgetPoolCudaTest, ItIsFiniteForAllNumbersAndKeepsNaN) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto numbers = torch::tensor({-3e4, -88.5, -87.0, 0.0, 87.0, 3e4}).to(type);
    const auto v = test::leaves(
        {numbers.repeat({3}).view({1, 1, 18}).to(at::kCUDA), draw({1, 6}, type)}, type);
    const auto pooled = own_pool(v);
    EXPECT_LT(distance(pooled, plain_pool({v[0].to(at::kDouble), v[1].to(at::kDouble)})), 0.02);
    for (const auto& gradient : torch::autograd::grad({pooled.sum()}, v)) {
      EXPECT_TRUE(gradient.isfinite().all().item<bool>());
    }
    const auto spoilt = torch::full({1, 2, 6}, std::nan(""), v[0].options());
    EXPECT_TRUE(own_pool({spoilt, v[1].narrow(1, 0, 2)}).isnan().all().item<bool>());
  }
}

}  // namespace
}  // namespace deq::kernels

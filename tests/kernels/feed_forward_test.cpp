#include "kernels/feed_forward/feed_forward.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <cmath>

#include "derivatives.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

struct FeedForwardCase {
  int64_t batch, length, in, inner, out;
  bool masked;
};

// Blocks are of 256 positions and 512 inner features.
const FeedForwardCase kFeedForwardCases[] = {{4, 16, 12, 9, 12, false}, {4, 17, 12, 9, 12, true},
                                             {3, 300, 5, 40, 7, true},  {2, 40, 6, 1030, 4, false},
                                             {2, 40, 6, 1030, 4, true}, {1, 600, 3, 513, 2, true}};

std::ostream& operator<<(std::ostream& out, const FeedForwardCase& c) {
  return out << c.batch << "×" << c.length << " positions, " << c.in << " → " << c.inner << " → "
             << c.out << (c.masked ? ", masked" : "");
}

class FeedForwardTest : public test::Seeded {
 protected:
  // Where many threads share few positions the kernel leaves them to torch.
  FeedForwardTest() { at::set_num_threads(2); }
  ~FeedForwardTest() override { at::set_num_threads(threads_); }

  at::Tensor draw(at::IntArrayRef shape) {
    return torch::randn(shape, generator_, torch::kFloat64);
  }

  /// x, W, b, V, c; the matrices are transposed weights, as a model has them.
  test::Variables variables(const FeedForwardCase& c) {
    const double spread = 1 / std::sqrt(static_cast<double>(c.inner));
    return {draw({c.batch, c.length, c.in}), draw({c.inner, c.in}).t(), draw({c.inner}),
            draw({c.out, c.inner}).mul_(spread).t(), draw({c.out})};
  }

  at::Tensor mask(const FeedForwardCase& c) {
    if (!c.masked) return {};
    return torch::rand({c.batch, 1, c.inner}, generator_, torch::kFloat64).gt(0.3).to(at::kDouble) /
           0.7;
  }

 private:
  int threads_ = at::get_num_threads();
};

template <class Function>
test::Operation feed_forward_operation(const Function& f, const at::Tensor& mask) {
  return [f, mask](const test::Variables& v) {
    return f(v[0], {v[1], v[2], v[3], v[4]}, mask.defined() ? mask.to(v[0].scalar_type()) : mask);
  };
}

TEST_F(FeedForwardTest, ItAndItsDerivativesAreTheReferences) {
  for (const auto& c : kFeedForwardCases) {
    SCOPED_TRACE(::testing::Message() << c);
    const auto given = variables(c);
    const auto factors = mask(c);
    const auto narrow = test::leaves(given, at::kFloat);
    ASSERT_TRUE(cpu::feed_forward_serves(narrow[0], {narrow[1], narrow[2], narrow[3], narrow[4]}));
    test::expect_derivatives(feed_forward_operation(feed_forward, factors),
                             feed_forward_operation(reference::feed_forward, factors), given,
                             draw({c.batch, c.length, c.out}));
  }
}

TEST_F(FeedForwardTest, ASolveComputesWhatTheTapeDoes) {
  for (const auto& c : kFeedForwardCases) {
    const auto given = test::leaves(variables(c), at::kFloat);
    const auto f = feed_forward_operation(feed_forward, mask(c));
    const auto taped = f(given);
    const torch::NoGradGuard no_grad;
    // Blocks lie elsewhere in memory, and may be multiplied in another order.
    EXPECT_LT(test::relative_difference(f(given), taped), 1e-6) << c;
  }
}

TEST_F(FeedForwardTest, ProductsForTheStateAloneAreTheSame) {
  // As an adjoint solve asks for them, without the weights' gradients.
  const auto& c = kFeedForwardCases[2];
  const auto given = test::leaves(variables(c), at::kFloat);
  const auto y = feed_forward_operation(feed_forward, mask(c))(given);
  const auto g = draw(y.sizes()).to(at::kFloat);
  const auto alone = torch::autograd::grad({y}, {given[0]}, {g}, /*retain_graph=*/true)[0];
  const auto with_all = torch::autograd::grad({y}, given, {g})[0];
  EXPECT_TRUE(alone.equal(with_all));
}

TEST_F(FeedForwardTest, NaNPassesTheReLU) {
  const auto& c = kFeedForwardCases[0];
  auto given = test::leaves(variables(c), at::kFloat);
  const torch::NoGradGuard no_grad;
  given[0][1][2][3] = std::nan("");
  const auto y = feed_forward_operation(feed_forward, {})(given);
  EXPECT_TRUE(y[1][2].isnan().all().item<bool>());
  EXPECT_EQ(y.isnan().sum().item<int64_t>(), c.out);
}

TEST_F(FeedForwardTest, FewPositionsAndOtherTypesAreThePlainVersions) {
  const FeedForwardCase few{1, 1, 5, 40, 7, false};
  const auto narrow = test::leaves(variables(few), at::kFloat);
  EXPECT_FALSE(cpu::feed_forward_serves(narrow[0], {narrow[1], narrow[2], narrow[3], narrow[4]}));
  const auto wide = variables(kFeedForwardCases[0]);
  EXPECT_FALSE(cpu::feed_forward_serves(wide[0], {wide[1], wide[2], wide[3], wide[4]}));
  EXPECT_TRUE(feed_forward_operation(feed_forward, {})(wide).equal(
      feed_forward_operation(reference::feed_forward, {})(wide)));
}

}  // namespace
}  // namespace deq::kernels

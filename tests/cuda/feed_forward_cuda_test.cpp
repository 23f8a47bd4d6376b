#include "kernels/feed_forward/feed_forward.h"

#include <torch/autograd.h>

#include "core/format.h"
#include "gpu_test.h"
#include "kernels/derivatives.h"

namespace deq::kernels {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Case {
  int64_t batch, length, in, inner, out;
  bool masked;
};

const Case kCases[] = {
    {2, 5, 12, 16, 8, false}, {2, 5, 12, 16, 8, true}, {3, 37, 40, 264, 24, true}};

using FeedForwardCudaTest = test::GpuTest;

/// y, its gradients for x and the weights, and the gradients of the square of that for x, as a
/// penalty takes them. The last of `v` is the cotangent.
template <class Function>
Tensors derive_feed_forward(const Function& f, const Tensors& v, const at::Tensor& mask) {
  const Tensors of_f(v.begin(), v.end() - 1);
  const auto& g = v.back();
  const auto y = f(v[0], {v[1], v[2], v[3], v[4]}, mask);
  Tensors all{y};
  for (const auto& gradient : torch::autograd::grad({y}, of_f, {g}, /*retain_graph=*/true)) {
    all.push_back(gradient);
  }
  const auto product = torch::autograd::grad({y}, {v[0]}, {g}, /*retain_graph=*/true,
                                             /*create_graph=*/true)[0];
  all.push_back(product);
  const auto twice =
      torch::autograd::grad({product.to(at::kDouble).square().sum()}, {v[1], v[3], g});
  all.insert(all.end(), twice.begin(), twice.end());
  return all;
}

TEST_F(FeedForwardCudaTest, ItAndItsDerivativesAreTheReferencesInFloat64) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const auto& c : kCases) {
      SCOPED_TRACE(fmt::format("{}, {}×{} positions, {} → {} → {}{}", type, c.batch, c.length, c.in,
                               c.inner, c.out, c.masked ? ", masked" : ""));
      const auto mask =
          c.masked ? draw({c.batch, 1, c.inner}).gt(-0.5).to(type) * 1.25 : at::Tensor();
      const Tensors given{draw({c.batch, c.length, c.in}, type),
                          draw({c.in, c.inner}, type),
                          draw({c.inner}, type),
                          draw({c.inner, c.out}, type),
                          draw({c.out}, type),
                          draw({c.batch, c.length, c.out}, type)};
      ASSERT_TRUE(
          tensor_cores::feed_forward_serves(given[0], {given[1], given[2], given[3], given[4]}));
      const auto own = derive_feed_forward(feed_forward, test::leaves(given, type), mask);
      const auto expected =
          derive_feed_forward(reference::feed_forward, test::leaves(given, at::kDouble),
                              mask.defined() ? mask.to(at::kDouble) : at::Tensor());
      const double tolerance = type == at::kFloat ? 1e-5 : 0.05;
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_LT(test::distance(own[i], expected[i]), tolerance * test::largest(expected[i])) << i;
      }
    }
  }
}

}  // namespace
}  // namespace deq::kernels

#include "kernels/attention/relative_softmax.h"

#include <torch/autograd.h>

#include "core/format.h"
#include "gpu_test.h"
#include "kernels/attention/relative_attention.h"

namespace deq::kernels {
namespace {

using test::distance;
using test::largest;
using RelativeSoftmaxTensors = std::vector<at::Tensor>;

struct RelativeSoftmaxCase {
  int64_t matrices, queries, keys, padding, horizon;
  bool dropout;
  int64_t hidden = 0;
};

// A lane holds 4, 12, 32 or 64 numbers of a row.
const RelativeSoftmaxCase kRelativeSoftmaxCases[] = {
    {3, 1, 1, 7, 0, false},   {2, 5, 9, 1, 0, true},      {4, 7, 130, 6, 40, true},
    {2, 33, 33, 7, 0, false}, {2, 40, 385, 8, 0, true},   {3, 3, 1100, 4, 1000, false},
    {1, 2, 2048, 8, 0, true}, {3, 20, 40, 8, 0, true, 5}, {2, 9, 136, 8, 130, false, 3}};

class RelativeSoftmaxCudaTest : public test::GpuTest {
 protected:
  at::Tensor factors(const RelativeSoftmaxCase& c, at::ScalarType type) {
    if (!c.dropout) return {};
    return draw({c.matrices, c.queries, c.keys}).gt(-1).to(type) * 1.25;
  }
};

SoftmaxTerms terms_of(const RelativeSoftmaxCase& c, const at::Tensor& dropout) {
  return {.scale = 0.3,
          .horizon = c.horizon,
          .hidden = c.hidden,
          .dropout = dropout,
          .mask = attention_mask(c.queries, c.keys, c.horizon, at::kCUDA, c.hidden)};
}

/// p; its gradients, without a graph and with one; the gradients, for scores and g, of those.
template <class Function>
RelativeSoftmaxTensors derive_softmax(const Function& f, const RelativeSoftmaxTensors& scores,
                                      const at::Tensor& g) {
  const auto p = f(scores[0], scores[1]);
  RelativeSoftmaxTensors all{p};
  const auto plain = torch::autograd::grad({p}, scores, {g}, /*retain_graph=*/true);
  all.insert(all.end(), plain.begin(), plain.end());
  const auto once = torch::autograd::grad({p}, scores, {g}, /*retain_graph=*/true,
                                          /*create_graph=*/true);
  all.insert(all.end(), once.begin(), once.end());
  const auto sum = once[0].square().sum() + once[1].square().sum();
  const auto twice = torch::autograd::grad({sum}, {scores[0], scores[1], g});
  all.insert(all.end(), twice.begin(), twice.end());
  return all;
}

TEST_F(RelativeSoftmaxCudaTest, ItAndItsDerivativesAreTheReferencesInFloat64) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const auto& c : kRelativeSoftmaxCases) {
      SCOPED_TRACE(fmt::format("{}, {} times {} queries, {} keys, {} hidden, horizon {}", type,
                               c.matrices, c.queries, c.keys, c.hidden, c.horizon));
      const RelativeSoftmaxTensors scores{
          draw({c.matrices, c.queries, c.keys}, type).requires_grad_(),
          draw({c.matrices, c.queries, c.keys + c.padding}, type).requires_grad_()};
      const auto g = draw({c.matrices, c.queries, c.keys}, type).requires_grad_();
      const auto dropout = factors(c, type);
      ASSERT_TRUE(relative_softmax_serves(scores[0], scores[1]));
      const auto results = derive_softmax(
          [&](const at::Tensor& content, const at::Tensor& distances) {
            return relative_softmax(content, distances, terms_of(c, dropout));
          },
          scores, g);
      const auto wide = [](const at::Tensor& tensor) {
        return tensor.detach().to(at::kDouble).requires_grad_();
      };
      const auto expected = derive_softmax(
          [&](const at::Tensor& content, const at::Tensor& distances) {
            const auto exact = dropout.defined() ? dropout.to(at::kDouble) : dropout;
            return reference::relative_softmax(content, distances, terms_of(c, exact));
          },
          {wide(scores[0]), wide(scores[1])}, wide(g));
      ASSERT_EQ(results.size(), expected.size());
      const double unit = type == at::kDouble ? 1e-14 : type == at::kFloat ? 2e-6 : 0x1p-6;
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].scalar_type(), type) << i;
        EXPECT_LE(distance(results[i], expected[i]), unit * (1 + largest(expected[i]))) << i;
      }
    }
  }
}

}  // namespace
}  // namespace deq::kernels

#include "kernels/attention/relative_attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "derivatives.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

struct RelativeAttentionCase {
  int64_t batch, own, queries, past, heads, width, horizon;
  bool dropout;
};

// Queries are taken by fours, numbers by sixteens.
const RelativeAttentionCase kRelativeAttentionCases[] = {
    {2, 4, 4, 0, 2, 5, 0, false},     {2, 7, 7, 3, 2, 5, 0, true},
    {1, 1, 1, 20, 3, 16, 0, false},   {1, 1, 1, 20, 3, 16, 5, true},
    {2, 9, 3, 0, 2, 6, 4, false},     {3, 18, 18, 15, 1, 17, 1000, true},
    {2, 21, 21, 30, 2, 16, 13, true}, {1, 33, 33, 64, 2, 20, 0, false}};

std::ostream& operator<<(std::ostream& out, const RelativeAttentionCase& c) {
  return out << c.batch << " samples, " << c.queries << " of " << c.own << " positions after "
             << c.past << ", " << c.heads << " heads of " << c.width << ", horizon " << c.horizon
             << (c.dropout ? ", dropout" : "");
}

class RelativeAttentionTest : public test::Seeded {
 protected:
  at::Tensor draw(at::IntArrayRef shape) {
    return torch::randn(shape, generator_, torch::kFloat64);
  }

  /// qkv, both biases, positions and, where there is one, the past.
  test::Variables variables(const RelativeAttentionCase& c) {
    test::Variables all{draw({c.batch, c.own, 3, c.heads, c.width}), draw({c.heads, c.width}),
                        draw({c.heads, c.width}),
                        position_keys(draw({c.past + c.own, c.heads * c.width}), c.heads)};
    if (c.past > 0) all.push_back(draw({2, c.heads, c.batch, c.past, c.width}));
    return all;
  }

  at::Tensor dropout(const RelativeAttentionCase& c) {
    if (!c.dropout) return {};
    const std::vector<int64_t> shape{c.heads * c.batch, c.queries, c.past + c.own};
    return torch::rand(shape, generator_, torch::kFloat64).gt(0.2).to(at::kDouble) / 0.8;
  }
};

AttentionTerms terms(const RelativeAttentionCase& c, const test::Variables& v,
                     const at::Tensor& dropout) {
  return {.content_bias = v[1],
          .position_bias = v[2],
          .positions = v[3],
          .past = c.past > 0 ? v[4] : at::Tensor(),
          .dropout = dropout.defined() ? dropout.to(v[0].scalar_type()) : dropout,
          .horizon = c.horizon,
          .mask = attention_mask(c.queries, c.past + c.own, c.horizon, at::kCPU)};
}

template <class Function>
test::Operation relative_attention_operation(const Function& f, const RelativeAttentionCase& c,
                                             const at::Tensor& dropout) {
  return [=](const test::Variables& v) { return f(v[0], c.queries, terms(c, v, dropout)); };
}

TEST_F(RelativeAttentionTest, ItAndItsDerivativesAreTheReferences) {
  for (const auto& c : kRelativeAttentionCases) {
    SCOPED_TRACE(::testing::Message() << c);
    const auto given = variables(c);
    const auto factors = dropout(c);
    const auto narrow = test::leaves(given, at::kFloat);
    ASSERT_TRUE(cpu::attend_serves(narrow[0], terms(c, narrow, factors)));
    test::expect_derivatives(relative_attention_operation(attend, c, factors),
                             relative_attention_operation(reference::attend, c, factors), given,
                             draw({c.batch, c.queries, c.heads * c.width}));
  }
}

TEST_F(RelativeAttentionTest, ASolveComputesWhatTheTapeDoes) {
  for (const auto& c : kRelativeAttentionCases) {
    const auto given = test::leaves(variables(c), at::kFloat);
    const auto f = relative_attention_operation(attend, c, dropout(c));
    const auto taped = f(given);
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(f(given).equal(taped)) << c;
  }
}

TEST_F(RelativeAttentionTest, ProductsForTheStateAloneAreTheSame) {
  // As an adjoint solve asks for them, without the gradients of what is constant in a solve.
  const auto& c = kRelativeAttentionCases[6];
  const auto given = test::leaves(variables(c), at::kFloat);
  const auto seen = relative_attention_operation(attend, c, dropout(c))(given);
  const auto g = draw(seen.sizes()).to(at::kFloat);
  const auto alone = torch::autograd::grad({seen}, {given[0]}, {g}, /*retain_graph=*/true)[0];
  const auto with_all = torch::autograd::grad({seen}, given, {g})[0];
  EXPECT_TRUE(alone.equal(with_all));
}

TEST_F(RelativeAttentionTest, ALaterPositionChangesNoBitOfAnEarlierOne) {
  const auto& c = kRelativeAttentionCases[7];
  auto given = test::leaves(variables(c), at::kFloat);
  const auto f = relative_attention_operation(attend, c, {});
  const torch::NoGradGuard no_grad;
  const auto before = f(given);
  given[0].narrow(1, 17, 1).add_(1);
  const auto after = f(given);
  EXPECT_TRUE(after.narrow(1, 0, 17).equal(before.narrow(1, 0, 17)));
  for (int64_t i = 17; i < c.queries; ++i) {
    EXPECT_FALSE(after.select(1, i).equal(before.select(1, i))) << i;
  }
}

TEST_F(RelativeAttentionTest, HiddenKeysChangeNothing) {
  constexpr int64_t kHidden = 3;
  for (const auto& c : kRelativeAttentionCases) {
    SCOPED_TRACE(::testing::Message() << c);
    const auto projected = draw({c.past + c.own, c.heads * c.width});
    auto given = variables(c);
    given[3] = position_keys(projected, c.heads);
    const auto own = terms(c, given, {});
    auto padded = own;
    const auto unseen = draw({2, c.heads, c.batch, kHidden, c.width});
    padded.past = c.past > 0 ? at::cat({unseen, own.past}, 3) : unseen;
    padded.positions = position_keys(projected, c.heads, kHidden);
    padded.hidden = kHidden;
    padded.mask = attention_mask(c.queries, kHidden + c.past + c.own, c.horizon, at::kCPU, kHidden);
    ASSERT_FALSE(cpu::attend_serves(given[0].to(at::kFloat), padded));
    const auto expected = reference::attend(given[0], c.queries, own);
    const auto found = reference::attend(given[0], c.queries, padded);
    EXPECT_LT((found - expected).abs().max().item<double>(), 1e-13);
  }
}

TEST_F(RelativeAttentionTest, DependsNeitherOnThreadsNorOnTheOtherSamples) {
  const auto& c = kRelativeAttentionCases[6];
  const auto given = test::leaves(variables(c), at::kFloat);
  const torch::NoGradGuard no_grad;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = relative_attention_operation(attend, c, {})(given);
  at::set_num_threads(3);
  EXPECT_TRUE(relative_attention_operation(attend, c, {})(given).equal(one));
  at::set_num_threads(threads);
  auto alone = given;
  alone[0] = alone[0].narrow(0, 1, 1);
  alone[4] = alone[4].narrow(2, 1, 1);
  EXPECT_TRUE(relative_attention_operation(attend, c, {})(alone).equal(one.narrow(0, 1, 1)));
}

}  // namespace
}  // namespace deq::kernels

#include "kernels/feed_forward/swiglu.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "core/format.h"
#include "derivatives.h"
#include "kernels/feed_forward/gate.h"
#include "kernels/feed_forward/token_mixer.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::kernels {
namespace {

struct SwiGluCase {
  int64_t samples, tokens, features, inner;
};

// The gate is made in parts of 4,096 numbers.
const SwiGluCase kSwiGluCases[] = {
    {3, 9, 8, 16}, {2, 7, 5, 3}, {1, 1, 1, 1}, {4, 20, 33, 40}, {2, 3, 65, 150}};

class SwiGluTest : public test::Seeded {
 protected:
  at::Tensor draw(at::IntArrayRef shape) {
    return torch::randn(shape, generator_, torch::kFloat64);
  }

  /// x, G, D.
  test::Variables variables(const SwiGluCase& c, Over over) {
    const auto n = over == Over::Features ? c.features : c.tokens;
    const double spread = 1 / std::sqrt(static_cast<double>(n));
    const double inner_spread = 1 / std::sqrt(static_cast<double>(c.inner));
    return {draw({c.samples, c.tokens, c.features}), draw({2 * c.inner, n}) * spread,
            draw({n, c.inner}) * inner_spread};
  }
};

at::Tensor own_swiglu(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down,
                      Over over) {
  return swiglu(x, gate_up, down, over);
}

template <class Function>
test::Operation swiglu_operation(const Function& f, Over over) {
  return [f, over](const test::Variables& v) { return f(v[0], v[1], v[2], over); };
}

TEST_F(SwiGluTest, ItAndItsDerivativesAreTheReferences) {
  for (const auto& c : kSwiGluCases) {
    for (const auto over : {Over::Features, Over::Tokens}) {
      SCOPED_TRACE(fmt::format("{} × {} × {}, {} inside, {}", c.samples, c.tokens, c.features,
                               c.inner, over == Over::Tokens ? "tokens" : "features"));
      test::expect_derivatives(swiglu_operation(own_swiglu, over),
                               swiglu_operation(reference::swiglu, over), variables(c, over),
                               draw({c.samples, c.tokens, c.features}));
    }
  }
}

/// As a reasoner applies it: what goes in depends on the weights, too.
TEST_F(SwiGluTest, WeightsThatAreUsedTwiceGetTheirGradientsOnce) {
  for (const auto over : {Over::Features, Over::Tokens}) {
    const auto twice = [over](const auto& f) {
      return [f, over](const test::Variables& v) {
        return f(f(v[0], v[1], v[2], over), v[1], v[2], over);
      };
    };
    test::expect_derivatives(twice(own_swiglu), twice(reference::swiglu),
                             variables(kSwiGluCases[0], over), draw({3, 9, 8}));
  }
}

TEST_F(SwiGluTest, InFloat64ItIsTheFormula) {
  const auto v = variables({2, 3, 4, 5}, Over::Tokens);
  const auto y = swiglu(v[0], v[1], v[2], Over::Tokens);
  for (int64_t sample = 0; sample < 2; ++sample) {
    for (int64_t feature = 0; feature < 4; ++feature) {
      const auto both = v[1].mv(v[0][sample].select(1, feature));
      const auto a = both.narrow(0, 0, 5);
      const auto expected = v[2].mv(a / (1 + (-a).exp()) * both.narrow(0, 5, 5));
      EXPECT_LT(test::relative_difference(y[sample].select(1, feature), expected), 1e-14);
    }
  }
}

TEST_F(SwiGluTest, ASolveComputesWhatTheTapeDoes) {
  for (const auto over : {Over::Features, Over::Tokens}) {
    const auto given = test::leaves(variables(kSwiGluCases[3], over), at::kFloat);
    const auto f = swiglu_operation(own_swiglu, over);
    const auto taped = f(given);
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(f(given).equal(taped));
  }
}

TEST_F(SwiGluTest, WhatIsMadeAgainIsWhatWouldHaveBeenKept) {
  for (const auto over : {Over::Features, Over::Tokens}) {
    const auto given = test::leaves(variables(kSwiGluCases[3], over), at::kFloat);
    const auto g = draw({4, 20, 33}).to(at::kFloat);
    const auto gradients = [&](Between between) {
      return torch::autograd::grad({swiglu(given[0], given[1], given[2], over, between)}, given,
                                   {g});
    };
    const auto kept = gradients(Between::Kept), again = gradients(Between::MadeAgain);
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(again[i].equal(kept[i])) << i;
  }
}

/// As an adjoint solve asks for them.
TEST_F(SwiGluTest, ProductsForTheStateAloneAreTheSame) {
  for (const auto over : {Over::Features, Over::Tokens}) {
    const auto given = test::leaves(variables(kSwiGluCases[0], over), at::kFloat);
    const auto y = swiglu_operation(own_swiglu, over)(given);
    const auto g = draw(y.sizes()).to(at::kFloat);
    const auto alone = torch::autograd::grad({y}, {given[0]}, {g}, /*retain_graph=*/true)[0];
    EXPECT_TRUE(alone.equal(torch::autograd::grad({y}, given, {g})[0]));
  }
}

TEST_F(SwiGluTest, TokensAreMixedByASwiGluAndANorm) {
  const auto v = variables(kSwiGluCases[0], Over::Tokens);
  ASSERT_FALSE(mix_tokens_serves(v[0], v[1], v[2]));
  const auto own = [](const test::Variables& u) { return mix_tokens(u[0], u[1], u[2]); };
  const auto plain = [](const test::Variables& u) {
    return reference::mix_tokens(u[0], u[1], u[2]);
  };
  test::expect_derivatives(own, plain, v, draw({3, 9, 8}));
}

TEST_F(SwiGluTest, TheGateIsFiniteForAllNumbersAndKeepsNaN) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto numbers = torch::tensor({-3e4, -90.0, -1e-20, 0.0, 90.0, 3e4}, type);
    const auto both = torch::stack({numbers, torch::ones_like(numbers)}).view({1, 1, -1});
    const auto h = gate(both, Over::Features).flatten();
    EXPECT_LT(test::relative_difference(h, at::silu(numbers)), 1e-6);
    EXPECT_TRUE(h.isfinite().all().item<bool>());
    const auto [for_both, again] = gate_backward(h.view({1, 1, -1}), both, Over::Features);
    EXPECT_TRUE(for_both.isfinite().all().item<bool>());
    EXPECT_TRUE(again.flatten().equal(h));
  }
  const auto spoilt = torch::tensor({std::nan(""), 1.0}, at::kFloat).view({1, 1, 2});
  EXPECT_TRUE(gate(spoilt, Over::Features).isnan().all().item<bool>());
}

TEST_F(SwiGluTest, UnderAutocastItIsInTheTypeOfAutocast) {
  const auto given = test::leaves(variables(kSwiGluCases[0], Over::Tokens), at::kFloat);
  const auto exact = swiglu(given[0], given[1], given[2], Over::Tokens);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const auto y = swiglu(given[0], given[1], given[2], Over::Tokens);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_LT(test::relative_difference(y, exact), 0.02);
  const auto gradients = torch::autograd::grad({y.to(at::kFloat).sum()}, given);
  const auto expected = torch::autograd::grad({exact.sum()}, given);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(gradients[i].scalar_type(), at::kFloat);
    EXPECT_LT(test::relative_difference(gradients[i], expected[i]), 0.04) << i;
  }
}

}  // namespace
}  // namespace deq::kernels

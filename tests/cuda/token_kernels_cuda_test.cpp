#include <torch/autograd.h>

#include "core/format.h"
#include "gpu_test.h"
#include "kernels/derivatives.h"
#include "kernels/feed_forward/gate.h"
#include "kernels/feed_forward/swiglu.h"
#include "kernels/feed_forward/token_mixer.h"
#include "kernels/norms/sum_norm.h"

// What a reasoner is made of, on the GPU, against the plain versions in float64.

namespace deq::kernels {
namespace {

using test::distance;
using test::largest;
using TokenTensors = std::vector<at::Tensor>;

struct TokenCase {
  int64_t samples, tokens, features;
};

// Vectors of 8, 4 and 1 numbers; 1, 2, 4 and 16 of them a lane; 1, 3 and 8 tokens a lane; blocks of
// 8 tokens and of 8 vectors, with some left over.
const std::vector<TokenCase> kTokenCases{{3, 81, 512}, {2, 7, 5},    {1, 4, 3},    {5, 16, 64},
                                         {3, 33, 20},  {2, 256, 40}, {1, 5, 1000}, {2, 3, 2048},
                                         {2, 97, 136}, {1, 9, 4096}, {1, 4, 500},  {2, 31, 8}};

double unit_of(at::ScalarType type) {
  return type == at::kDouble ? 1e-13 : type == at::kFloat ? 4e-6 : 0x1p-6;
}

void expect_near(const TokenTensors& found, const TokenTensors& expected, at::ScalarType type) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(distance(found[i], expected[i]), unit_of(type) * (1 + largest(expected[i]))) << i;
  }
}

using TokenKernelsCudaTest = test::GpuTest;

TEST_F(TokenKernelsCudaTest, TheNormOfASumAndItsDerivativesAreTheReferencesInFloat64) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const auto& c : test::thinned(kTokenCases)) {
      for (const auto over : {Over::Features, Over::Tokens}) {
        SCOPED_TRACE(fmt::format("{}, {} × {} × {}, {}", type, c.samples, c.tokens, c.features,
                                 over == Over::Tokens ? "tokens" : "features"));
        const auto drawn = [&] { return draw({c.samples, c.tokens, c.features}, type); };
        const test::Variables sums{drawn(), drawn()};
        const auto g = drawn();
        if (!sum_norm_serves(sums[0], sums[1], over)) {
          EXPECT_GT(c.features * sums[0].element_size(), 8192);  // more than a warp holds
          continue;
        }
        const auto own = [&](const test::Variables& v) { return sum_norm(v[0], v[1], over); };
        const auto plain = [&](const test::Variables& v) {
          return std::get<0>(reference::sum_norm(v[0], v[1], over));
        };
        const auto found =
            test::derivatives(own, test::leaves(sums, type), test::leaves({g}, type).front());
        EXPECT_EQ(found[0].scalar_type(), type);
        expect_near(found,
                    test::derivatives(plain, test::leaves(sums, at::kDouble),
                                      test::leaves({g}, at::kDouble).front()),
                    type);
      }
    }
  }
}

TEST_F(TokenKernelsCudaTest, ASumDependsNotOnTheOtherSamples) {
  for (const auto over : {Over::Features, Over::Tokens}) {
    const auto a = draw({5, 81, 72}, at::kBFloat16), b = draw({5, 81, 72}, at::kBFloat16);
    const auto y = sum_norm(a, b, over);
    EXPECT_TRUE(sum_norm(a, b, over).equal(y));
    EXPECT_TRUE(sum_norm(a.narrow(0, 2, 1), b.narrow(0, 2, 1), over).equal(y.narrow(0, 2, 1)));
  }
}

TEST_F(TokenKernelsCudaTest, TensorsThatBeginAnywhereServe) {
  for (const auto over : {Over::Features, Over::Tokens}) {
    const auto a = draw({2, 6, 16}, at::kBFloat16), b = draw({2, 6, 16}, at::kBFloat16);
    const auto memory = draw({1 + 2 * 6 * 16}, at::kBFloat16);
    const auto odd = memory.narrow(0, 1, 2 * 6 * 16).view({2, 6, 16}).copy_(a);
    EXPECT_TRUE(sum_norm(odd, b, over).equal(sum_norm(a, b, over)));
    EXPECT_TRUE(gate(odd, over).equal(gate(a, over)));
    const auto turned = a.transpose(1, 2).contiguous().transpose(1, 2);
    EXPECT_TRUE(sum_norm(turned, b, over).equal(sum_norm(a, b, over)));
  }
}

TEST_F(TokenKernelsCudaTest, TheGateAndItsGradientAreThePlainOnesInFloat64) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const auto& c : test::thinned(kTokenCases)) {
      for (const auto over : {Over::Features, Over::Tokens}) {
        SCOPED_TRACE(fmt::format("{}, {} × {} × {}, {}", type, c.samples, c.tokens, c.features,
                                 over == Over::Tokens ? "tokens" : "features"));
        const bool tokens = over == Over::Tokens;
        const auto both =
            draw({c.samples, c.tokens * (tokens ? 2 : 1), c.features * (tokens ? 1 : 2)}, type);
        const auto g = draw({c.samples, c.tokens, c.features}, type);
        const auto [for_both, again] = gate_backward(g, both, over);
        const auto leaf = both.to(at::kDouble).requires_grad_();
        const auto h = reference::gate(leaf, over);
        const auto expected = torch::autograd::grad({h}, {leaf}, {g.to(at::kDouble)})[0];
        expect_near({gate(both, over), again, for_both}, {h, h, expected}, type);
      }
    }
  }
}

TEST_F(TokenKernelsCudaTest, TheGateIsFiniteForAllNumbersAndKeepsNaN) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto numbers = torch::tensor({-3e4, -88.5, -87.0, 0.0, 87.0, 3e4}).to(type);
    const auto both = torch::stack({numbers, torch::ones_like(numbers)}).view({1, 1, -1});
    const auto on_gpu = both.to(at::kCUDA);
    const auto h = gate(on_gpu, Over::Features);
    EXPECT_LT(distance(h.cpu().flatten(), at::silu(numbers.to(at::kDouble))), 1e-3);
    EXPECT_TRUE(
        std::get<0>(gate_backward(h, on_gpu, Over::Features)).isfinite().all().item<bool>());
    const auto spoilt = torch::full({1, 1, 16}, std::nan(""), on_gpu.options());
    EXPECT_TRUE(gate(spoilt, Over::Features).isnan().all().item<bool>());
  }
}

TEST_F(TokenKernelsCudaTest, ASwiGluAndItsDerivativesAreTheReferencesInFloat64) {
  struct Case {
    int64_t samples, tokens, features, inner;
  };
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const auto& c : {Case{3, 81, 64, 48}, {2, 16, 24, 40}, {5, 7, 9, 11}, {2, 90, 512, 256}}) {
      for (const auto over : {Over::Features, Over::Tokens}) {
        SCOPED_TRACE(fmt::format("{}, {} × {} × {}, {} inside, {}", type, c.samples, c.tokens,
                                 c.features, c.inner,
                                 over == Over::Tokens ? "tokens" : "features"));
        const auto n = over == Over::Tokens ? c.tokens : c.features;
        const auto scaled = [&](int64_t rows, int64_t columns) {
          return (draw({rows, columns}) / std::sqrt(static_cast<double>(columns))).to(type);
        };
        const test::Variables given{draw({c.samples, c.tokens, c.features}, type),
                                    scaled(2 * c.inner, n), scaled(n, c.inner)};
        const auto g = draw({c.samples, c.tokens, c.features}, type);
        const auto own = [&](const test::Variables& v) { return swiglu(v[0], v[1], v[2], over); };
        const auto plain = [&](const test::Variables& v) {
          return reference::swiglu(v[0], v[1], v[2], over);
        };
        const auto found =
            test::derivatives(own, test::leaves(given, type), test::leaves({g}, type).front());
        const auto expected = test::derivatives(plain, test::leaves(given, at::kDouble),
                                                test::leaves({g}, at::kDouble).front());
        ASSERT_EQ(found.size(), expected.size());
        const double tolerance = type == at::kFloat ? 1e-5 : 0.05;
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_LE(distance(found[i], expected[i]), tolerance * largest(expected[i])) << i;
        }
      }
    }
  }
}

struct MixerCase {
  int64_t samples, tokens, features, inner;
};

// Kernels for 2, 6, 11 and 12 tiles of 8 tokens, strips of 32 features with some left over, more
// strips than warps, and as many as they are in a published reasoner.
const std::vector<MixerCase> kMixerCases{{3, 81, 512, 256}, {2, 16, 64, 32},  {5, 12, 8, 16},
                                         {1, 17, 40, 48},   {2, 48, 24, 16},  {1, 49, 72, 32},
                                         {2, 88, 32, 64},   {3, 96, 104, 16}, {400, 81, 128, 64}};

TEST_F(TokenKernelsCudaTest, MixedTokensAndTheirDerivativesAreTheReferencesInFloat64) {
  for (const auto& c : test::thinned(kMixerCases)) {
    SCOPED_TRACE(fmt::format("{} × {} × {}, {} inside", c.samples, c.tokens, c.features, c.inner));
    const auto type = at::kBFloat16;
    const auto scaled = [&](int64_t rows, int64_t columns) {
      return (draw({rows, columns}) / std::sqrt(static_cast<double>(columns))).to(type);
    };
    const test::Variables given{draw({c.samples, c.tokens, c.features}, type),
                                scaled(2 * c.inner, c.tokens), scaled(c.tokens, c.inner)};
    const auto g = draw({c.samples, c.tokens, c.features}, type);
    ASSERT_TRUE(mix_tokens_serves(given[0], given[1], given[2]));
    const auto own = [](const test::Variables& v) { return mix_tokens(v[0], v[1], v[2]); };
    const auto plain = [](const test::Variables& v) {
      return reference::mix_tokens(v[0], v[1], v[2]);
    };
    const auto found =
        test::derivatives(own, test::leaves(given, type), test::leaves({g}, type).front());
    const auto expected = test::derivatives(plain, test::leaves(given, at::kDouble),
                                            test::leaves({g}, at::kDouble).front());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LE(distance(found[i], expected[i]), 0.05 * largest(expected[i])) << i;
    }
    // Of one rounding at the end, and one of h on the way.
    EXPECT_LE(distance(found[0], expected[0]), 0x1p-6 * (1 + largest(expected[0])));
  }
}

TEST_F(TokenKernelsCudaTest, MixedTokensDependNotOnTheOtherSamplesNorOnHowTheyLie) {
  const torch::NoGradGuard no_grad;
  const auto type = at::kBFloat16;
  const auto x = draw({7, 81, 72}, type), down = draw({81, 32}, type);
  const auto wide = draw({64, 88}, type);
  const auto gate_up = wide.narrow(1, 0, 81);  // rows that vectors divide, with numbers between
  const auto y = mix_tokens(x, gate_up, down);
  EXPECT_TRUE(mix_tokens(x, gate_up.contiguous(), down).equal(y));
  EXPECT_TRUE(mix_tokens(x.narrow(0, 4, 1), gate_up, down).equal(y.narrow(0, 4, 1)));
}

}  // namespace
}  // namespace deq::kernels

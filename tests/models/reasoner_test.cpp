#include "deq/models/reasoner/reasoner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>

#include "deq/core/error.h"
#include "deq/jacobian/frobenius.h"
#include "deq/jacobian/spectrum.h"
#include "models/gradient_checks.h"
#include "models/reasoner/block.h"
#include "models/reasoner/parameters.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;
using test::relative_difference;
using torch::Tensor;

ReasonerOptions small_reasoner() {
  return {.vocabulary = 5,
          .tokens = 6,
          .width = 8,
          .layers = 2,
          .expansion = 2,
          .inner_multiple = 4,
          .heads = 2,
          .inner_steps = 3};
}

/// Plainly, from the formulas, one sample and one vector at a time.
class PlainReasoner {
 public:
  PlainReasoner(const ReasonerOptions& options, const torch::nn::Module& cell)
      : options_(options), weights_(cell.named_parameters()) {}

  State step(const State& state, const Tensor& x) const {
    auto y = state[0], z = state[1];
    const auto mixed = [this](const Tensor& s, const Tensor& seen) {
      return (1 - options_.damping) * s + options_.damping * block(seen);
    };
    for (int64_t k = 0; k < options_.inner_steps; ++k) z = mixed(z, z + y + x);
    y = mixed(y, y + z);
    return {y, z};
  }

 private:
  static Tensor normed(const Tensor& rows) {
    std::vector<Tensor> all;
    for (const auto& row : rows.unbind(0)) {
      all.push_back(row / std::sqrt(row.square().mean().item<double>() + 1e-5));
    }
    return torch::stack(all);
  }

  Tensor glu(const std::string& name, const Tensor& rows) const {
    const auto both = rows.mm(weights_[name + ".gate_up"].t());
    const auto inner = both.size(1) / 2;
    const auto gate = both.narrow(1, 0, inner), up = both.narrow(1, inner, inner);
    return (gate * gate.sigmoid() * up).mm(weights_[name + ".down"].t());
  }

  Tensor attention(const std::string& name, const Tensor& rows) const {
    const auto per_head = options_.width / options_.heads;
    const auto all = rows.mm(weights_[name + ".qkv"].t());
    std::vector<Tensor> seen;
    for (int64_t head = 0; head < options_.heads; ++head) {
      const auto part = [&](int64_t which) {
        return all.narrow(1, which * options_.width + head * per_head, per_head);
      };
      // Pairs of features as complex numbers, turned by an angle in proportion to the position.
      const auto turned = [&](const Tensor& vectors) {
        const auto pairs = per_head / 2;
        auto complex = torch::complex(vectors.narrow(1, 0, pairs), vectors.narrow(1, pairs, pairs));
        for (int64_t t = 0; t < vectors.size(0); ++t) {
          for (int64_t i = 0; i < pairs; ++i) {
            const double angle =
                static_cast<double>(t) *
                std::pow(10'000.0, -static_cast<double>(i) / static_cast<double>(pairs));
            complex[t][i] *= c10::complex<double>(std::cos(angle), std::sin(angle));
          }
        }
        return complex;
      };
      const auto scores = torch::real(turned(part(0)).mm(turned(part(1)).conj().t())) /
                          std::sqrt(static_cast<double>(per_head));
      seen.push_back(scores.softmax(1).mm(part(2)));
    }
    return torch::cat(seen, 1).mm(weights_[name + ".out"].t());
  }

  Tensor block(const Tensor& batch) const {
    std::vector<Tensor> all;
    for (auto h : batch.unbind(0)) {
      for (int64_t i = 0; i < options_.layers; ++i) {
        const auto layer = "block.layer" + std::to_string(i);
        h = options_.attention ? normed(h + attention(layer + ".attention", h))
                               : normed((h.t() + glu(layer + ".tokens", h.t()))).t();
        h = normed(h + glu(layer + ".features", h));
      }
      all.push_back(h);
    }
    return torch::stack(all);
  }

  ReasonerOptions options_;
  torch::OrderedDict<std::string, Tensor> weights_;
};

class ReasonerTest : public test::Seeded {
 protected:
  Tensor numbers(const ReasonerOptions& options, int64_t batch = 3) {
    return torch::randn({batch, options.tokens, options.width}, generator_, f64());
  }
  Tensor puzzles(const ReasonerOptions& options, int64_t batch = 3) {
    return torch::randint(options.vocabulary, {batch, options.tokens}, generator_, torch::kInt64);
  }
  Reasoner reasoner(const ReasonerOptions& options) {
    Reasoner made(options, generator_);
    made->to(torch::kFloat64);
    return made;
  }
};

TEST_F(ReasonerTest, HasThePublishedSize) {
  int64_t count = 0;
  for (const auto& parameter : Reasoner(ReasonerOptions{})->parameters())
    count += parameter.numel();
  // The published 4,855,298 have a second output of the halting head, which no loss sees.
  EXPECT_EQ(count, 4'855'298 - 513);
}

TEST_F(ReasonerTest, ARecursionIsTheFormulas) {
  for (const bool attention : {false, true}) {
    for (const double damping : {1.0, 0.7}) {
      auto options = small_reasoner();
      options.attention = attention;
      options.damping = damping;
      ReasonerCell cell(options, generator_);
      cell->to(torch::kFloat64);
      const State state{numbers(options), numbers(options)};
      const auto x = numbers(options);
      const auto found = cell->step(state, cell->prepare({x}));
      const auto expected = PlainReasoner(options, *cell).step(state, x);
      // The table of a rotation is kept in float32.
      const double accuracy = attention ? 1e-6 : 1e-13;
      EXPECT_LT(relative_difference(found[0], expected[0]), accuracy) << attention << damping;
      EXPECT_LT(relative_difference(found[1], expected[1]), accuracy) << attention << damping;
    }
  }
}

TEST_F(ReasonerTest, NoiseIsThatOfOneSolveAndOnlyInTraining) {
  auto options = small_reasoner();
  options.noise = 0.5;
  ReasonerCell cell(options, generator_);
  cell->to(torch::kFloat64);
  const State state{numbers(options), numbers(options)};
  const auto x = numbers(options);
  const auto context = cell->prepare({x});
  const auto once = cell->step(state, context)[0];
  EXPECT_TRUE(cell->step(state, context)[0].equal(once));
  EXPECT_GT(relative_difference(cell->step(state, cell->prepare({x}))[0], once), 0.1);
  // All that the last update adds is σ ε.
  cell->eval();
  EXPECT_EQ(cell->prepare({x}).size(), 1U);
  cell->train();
  const auto noises = Context(context.begin() + 1, context.end());
  ASSERT_EQ(noises.size(), 4U);
  EXPECT_NEAR(torch::stack(noises).std().item<double>(), 0.5, 0.06);
}

TEST_F(ReasonerTest, GradientsAreThoseOfDifferences) {
  for (const bool attention : {false, true}) {
    auto options = small_reasoner();
    options.attention = attention;
    options.damping = 0.95;
    auto net = reasoner(options);
    const auto tokens = puzzles(options);
    const auto start = net->start_of(tokens);
    const EquilibriumPlan plan({.gradient = Unrolled{.steps = 2}});
    test::expect_gradients_of_differences(*net, [&] {
      const auto output = net->forward(tokens, start, plan);
      return output.logits.log_softmax(-1).select(-1, 1).mean() + output.settled.square().mean() +
             output.logits.square().mean();
    });
  }
}

/// The published way: recursions without a gradient, then one with it.
TEST_F(ReasonerTest, ASegmentHasTheGradientOfItsLastRecursion) {
  const auto options = small_reasoner();
  auto net = reasoner(options);
  const auto tokens = puzzles(options);
  const auto start = net->start_of(tokens);
  const EquilibriumPlan plan({.gradient = Unrolled{.steps = 3, .backpropagated = 1}});
  const auto output = net->forward(tokens, start, plan);
  const auto weights = torch::randn(output.logits.sizes(), generator_, f64());
  const auto found =
      torch::autograd::grad({(output.logits * weights).sum()}, net->cell()->parameters());

  auto state = start;
  const auto context = net->cell()->prepare({net->embed(tokens)});
  {
    const torch::NoGradGuard no_grad;
    for (int k = 0; k < 2; ++k) state = net->cell()->step(state, context);
  }
  const auto logits = net->read(net->cell()->step(state, context)[0]);
  EXPECT_LT(relative_difference(output.logits, logits), 1e-13);
  const auto expected =
      torch::autograd::grad({(logits * weights).sum()}, net->cell()->parameters());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LT(relative_difference(found[i], expected[i]), 1e-12) << i;
  }
}

/// With small weights its states settle, as a trained one's do.
TEST_F(ReasonerTest, AtItsEquilibriumTheImplicitGradientAndThePenaltyAreExact) {
  const auto options = small_reasoner();
  auto net = reasoner(options);
  {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : net->cell()->parameters()) parameter.mul_(0.2);
  }
  const auto tokens = puzzles(options, 2);
  const auto start = net->start_of(tokens);
  const SolverOptions solver = Anderson{.tol = {.rtol = 1e-12}, .max_evals = 300};
  const EquilibriumOptions implicit{.forward = solver, .gradient = Implicit{.solver = solver}};
  test::expect_gradients_of_unrolled(
      *net,
      [&](const EquilibriumOptions& how) {
        const auto output = net->forward(tokens, start, how);
        return output.logits.square().mean() + output.settled.square().mean();
      },
      implicit, 200);

  const auto output = net->forward(tokens, start, implicit);
  ASSERT_TRUE(output.equilibrium.report.converged()) << output.equilibrium.report.brief();
  const auto& at = output.equilibrium.linearization();
  const auto dense = dense_jacobian(at);
  const double exact =
      dense.square().sum({1, 2}).mean().item<double>() / static_cast<double>(dense.size(1));
  const auto penalty = jacobian_penalty(at, Hutchinson{.probes = 100}, ProbeKey{.key = 1});
  EXPECT_NEAR(penalty.item<double>(), exact, 0.15 * exact);  // as good as 100 probes are
}

TEST_F(ReasonerTest, StartsAreFixedOrDrawn) {
  auto options = small_reasoner();
  const auto tokens = puzzles(options, 2);
  auto fixed = reasoner(options);
  const auto start = fixed->start_of(tokens);
  EXPECT_TRUE(start[0][0][0].equal(start[0][1][5]));
  EXPECT_FALSE(start[0][0][0].equal(start[1][0][0]));
  EXPECT_TRUE(fixed->start_of(tokens)[0].equal(start[0]));

  options.start = ReasonerStart::Random;
  auto random = reasoner(options);
  EXPECT_FALSE(random->start_of(tokens)[0].equal(random->start_of(tokens)[0]));
  auto first = generator_.clone(), second = generator_.clone();
  EXPECT_TRUE(random->start_of(tokens, first)[1].equal(random->start_of(tokens, second)[1]));
}

TEST_F(ReasonerTest, TruncatedNormalNumbersHaveTheirSpreadAndItsEnd) {
  const auto drawn = truncated_normal({100'000}, 0.5, generator_, f64());
  EXPECT_NEAR(drawn.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(drawn.std().item<double>(), 0.5, 0.005);
  EXPECT_LT(drawn.abs().max().item<double>(), 0.5 * 2.2744);
  EXPECT_GT(drawn.abs().max().item<double>(), 0.5 * 2.2);
}

TEST_F(ReasonerTest, RefusesWhatDoesNotFit) {
  const auto expect = [](ReasonerOptions options, const char* message) {
    EXPECT_THAT([&] { validate(options); },
                ::testing::ThrowsMessage<Error>(::testing::StrEq(message)));
  };
  expect({.vocabulary = 1}, "reasoner: vocabulary = 1, must be ≥ 2");
  expect({.width = 12, .attention = true, .heads = 8},
         "reasoner: width = 12, must be a multiple of 2·heads = 16");
  expect({.damping = 0}, "reasoner: damping = 0, must be in (0, 1]");
  expect({.noise = -1}, "reasoner: noise = -1, must be ≥ 0");
  auto net = reasoner(small_reasoner());
  EXPECT_THAT(
      [&] {
        net->embed(torch::zeros({2, 7}, torch::kInt64));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("must be whole numbers [B, 6]")));
}

}  // namespace
}  // namespace deq::models

#include "deq/models/transformer/cell.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>

#include "deq/core/error.h"
#include "deq/core/linearization.h"
#include "deq/core/precision.h"
#include "deq/models/transformer/positional_encoding.h"
#include "deq/nn/equilibrium.h"
#include "models/transformer/context.h"
#include "plain_transformer.h"
#include "support/maps.h"
#include "support/seed.h"
#include "transformer_small.h"

namespace deq::models {
namespace {

using test::f64;
using test::PlainTransformer;
using test::relative_difference;
using test::small_transformer;

class TransformerCellTest : public test::Seeded {
 protected:
  TransformerCell make(const TransformerOptions& options) {
    TransformerCell cell(options, generator_);
    cell->to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (auto& item : cell->named_parameters()) {  // biases start at zero
      if (item.key().ends_with("bias")) item.value().normal_(0, 0.5, generator_);
    }
    return cell;
  }

  torch::Tensor draw(c10::IntArrayRef shape) { return torch::randn(shape, generator_, f64()); }

  Inputs inputs(const TransformerOptions& options, int64_t batch, int64_t length, int64_t memory) {
    const auto width = 3 * options.heads * options.d_head;
    PositionalEncoding positions(options.d_model);
    positions->to(torch::kFloat64);
    Inputs inputs{draw({batch, length, width}), positions(memory + length)};
    if (memory > 0) {
      inputs.push_back(draw({batch, memory, options.d_model}));
      inputs.push_back(draw({batch, memory, width}));
    }
    return inputs;
  }

  void expect_formula(const TransformerOptions& options, int64_t length, int64_t memory) {
    auto cell = make(options);
    const PlainTransformer plain{options, cell->named_parameters()};
    const auto given = inputs(options, 3, length, memory);
    const auto z = draw({3, length, options.d_model}).requires_grad_();
    const auto v = draw(z.sizes());
    const auto context = cell->prepare(given);
    const auto f = cell->step({z}, context)[0], expected = plain.step(z, given, context);
    EXPECT_LT(relative_difference(f, expected), 1e-13);
    {
      const torch::NoGradGuard no_grad;
      EXPECT_LT(relative_difference(cell->step({z}, context)[0], expected), 1e-13);
    }
    auto parameters = cell->named_parameters();
    parameters.insert("z", z);
    const auto names = parameters.keys();
    // The gradients of vᵀf, and those of ‖vᵀJ‖².
    for (const bool second : {false, true}) {
      const auto gradients = [&](const torch::Tensor& value) {
        auto goal = (v * value).sum();
        if (second) {
          goal = torch::autograd::grad({goal}, {z}, {}, true, true)[0].square().sum();
        }
        return torch::autograd::grad({goal}, parameters.values(), {}, true, false, true);
      };
      const auto own = gradients(f), wanted = gradients(expected);
      for (size_t i = 0; i < own.size(); ++i) {
        const auto zero = torch::zeros_like(parameters[names[i]]);
        const auto a = own[i].defined() ? own[i] : zero;
        const auto b = wanted[i].defined() ? wanted[i] : zero;
        const double scale = std::max(1.0, b.abs().max().item<double>());
        EXPECT_LT((a - b).abs().max().item<double>(), 1e-11 * scale) << names[i] << " " << second;
      }
    }
  }
};

TEST_F(TransformerCellTest, IsItsFormula) {
  for (const bool pre_ln : {false, true}) {
    for (const bool weight_norm : {false, true}) {
      auto options = small_transformer(pre_ln);
      options.weight_norm = weight_norm;
      expect_formula(options, 5, 4);
    }
  }
}

TEST_F(TransformerCellTest, IsItsFormulaWithoutMemoryOrText) {
  expect_formula(small_transformer(), 6, 0);
  expect_formula(small_transformer(), 1, 0);
  expect_formula(small_transformer(true), 1, 5);
  expect_formula(small_transformer(true), 7, 1);
}

TEST_F(TransformerCellTest, IsItsFormulaWithANearHorizon) {
  for (const int64_t horizon : {1, 3, 8}) {
    auto options = small_transformer();
    options.horizon = horizon;
    expect_formula(options, 5, 4);
  }
}

TEST_F(TransformerCellTest, IsItsFormulaWithDropout) {
  auto options = small_transformer();
  options.dropout = options.attention_dropout = 0.4;
  expect_formula(options, 5, 3);
  options.pre_ln = true;
  expect_formula(options, 5, 3);
}

TEST_F(TransformerCellTest, TheResidualMayBeTheInputItself) {
  auto options = small_transformer(true);
  options.normalised_residual = false;
  expect_formula(options, 4, 2);
}

TEST_F(TransformerCellTest, ALaterPositionChangesNoEarlierOne) {
  for (const bool pre_ln : {false, true}) {
    const auto options = small_transformer(pre_ln);
    auto cell = make(options);
    auto given = inputs(options, 2, 6, 3);
    auto z = draw({2, 6, options.d_model});
    const auto before = cell->step({z}, cell->prepare(given))[0];
    z.select(1, 4).add_(1);
    given[0].select(1, 4).sub_(1);
    const auto after = cell->step({z}, cell->prepare(given))[0];
    EXPECT_TRUE(after.slice(1, 0, 4).equal(before.slice(1, 0, 4)));
    EXPECT_FALSE(after.select(1, 5).allclose(before.select(1, 5)));
  }
}

TEST_F(TransformerCellTest, TextAfterAMemoryIsTheEndOfTheWholeText) {
  for (const bool pre_ln : {false, true}) {
    const auto options = small_transformer(pre_ln);
    auto cell = make(options);
    const auto whole = inputs(options, 2, 9, 0);
    const auto z = draw({2, 9, options.d_model});
    const Inputs parts{whole[0].slice(1, 4), whole[1], z.slice(1, 0, 4), whole[0].slice(1, 0, 4)};
    const auto at_once = cell->step({z}, cell->prepare(whole))[0];
    const auto after = cell->step({z.slice(1, 4).contiguous()}, cell->prepare(parts))[0];
    EXPECT_LT(relative_difference(after, at_once.slice(1, 4)), 1e-13);
  }
}

TEST_F(TransformerCellTest, DropoutIsDrawnOnceASolveAndOnlyInTraining) {
  auto options = small_transformer();
  options.dropout = options.attention_dropout = 0.5;
  auto cell = make(options);
  const auto given = inputs(options, 2, 4, 3);
  const State z{draw({2, 4, options.d_model})};
  const auto first = cell->prepare(given), second = cell->prepare(given);
  EXPECT_TRUE(cell->step(z, first)[0].equal(cell->step(z, first)[0]));
  EXPECT_FALSE(cell->step(z, first)[0].allclose(cell->step(z, second)[0]));
  cell->eval();
  const auto a = cell->prepare(given), b = cell->prepare(given);
  EXPECT_TRUE(cell->step(z, a)[0].equal(cell->step(z, b)[0]));
  for (const auto slot : {kAttentionDropout, kOutDropout, kInnerDropout, kOuterDropout}) {
    EXPECT_TRUE(first[slot].defined());
    EXPECT_FALSE(a[slot].defined());
  }
}

TEST_F(TransformerCellTest, BFloat16ReachesEveryParameter) {
  const auto options = small_transformer(true);
  auto cell = make(options);
  cell->to(torch::kFloat32);
  auto given = inputs(options, 4, 8, 5);
  for (auto& input : given) input = input.to(torch::kFloat32);
  const auto z = draw({4, 8, options.d_model}).to(torch::kFloat32);
  const auto v = draw(z.sizes()).to(torch::kFloat32);
  const auto layout = StateLayout::of({z});
  const auto gradients = [&](Precision precision) {
    const PrecisionScope scope(precision, torch::kCPU);
    const auto context = cell->prepare(given);
    {
      const torch::NoGradGuard no_grad;
      cell->step({z}, context);
    }
    const auto product = (layout.pack({v}) * layout.pack(cell->step({z}, context))).sum();
    return torch::autograd::grad({product}, cell->parameters());
  };
  const auto names = cell->named_parameters().keys();
  const auto exact = gradients(Precision::Float32), rounded = gradients(Precision::BFloat16);
  std::vector<torch::Tensor> all_exact, all_rounded;
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_TRUE(rounded[i].ne(0).any().item<bool>()) << names[i];
    all_exact.push_back(exact[i].flatten());
    all_rounded.push_back(rounded[i].flatten());
  }
  const auto cosine = torch::cosine_similarity(torch::cat(all_exact), torch::cat(all_rounded), 0);
  EXPECT_GT(cosine.item<double>(), 0.99);
}

TEST_F(TransformerCellTest, RefusesInputsThatDoNotFit) {
  const auto options = small_transformer();
  auto cell = make(options);
  const auto good = inputs(options, 2, 4, 3);
  cell->prepare(good);
  for (size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] = bad[i].narrow(bad[i].dim() - 2, 0, 2);  // fewer positions only in this one
    EXPECT_THROW(cell->prepare(bad), Error) << "input " << i;
    bad[i] = good[i].narrow(-1, 0, 7);
    EXPECT_THROW(cell->prepare(bad), Error) << "input " << i;
  }
  EXPECT_THROW(cell->prepare({good[0]}), Error);
  EXPECT_THROW(cell->step({draw({2, 4, options.d_model})}, {good[0]}), Error);
}

}  // namespace
}  // namespace deq::models

#include "deq/models/transformer/transformer.h"

#include <gtest/gtest.h>

#include <map>

#include "core/jacobian_products.h"
#include "deq/core/error.h"
#include "deq/core/precision.h"
#include "support/maps.h"
#include "support/seed.h"
#include "transformer_small.h"

namespace deq::models {
namespace {

using test::relative_difference;
using test::small_transformer;

const EquilibriumOptions kTransformerTight{
    .forward = Broyden{.memory = 200, .tol = {.rtol = 1e-13}, .max_evals = 400}};

class TransformerTest : public test::Seeded {
 protected:
  DeqTransformer make(const TransformerOptions& options, bool train = false) {
    DeqTransformer model(options, generator_);
    model->to(torch::kFloat64);
    model->train(train);
    // What is injected outweighs z, so that there is one equilibrium, which every solve finds.
    const torch::NoGradGuard no_grad;
    const std::map<std::string, double> factors{{"func.dec_attn.qkv_net.weight_g", 0.1},
                                                {"func.dec_attn.o_net.weight_g", 3},
                                                {"inject_conv.weight", 100}};
    for (auto& item : model->named_parameters()) {
      if (factors.contains(item.key())) item.value().mul_(factors.at(item.key()));
    }
    return model;
  }

  torch::Tensor tokens(int64_t batch, int64_t length) {
    return torch::randint(19, {batch, length}, generator_, torch::kInt64);
  }
};

TEST(TransformerSize, IsThePublishedOne) {
  const DeqTransformer model;
  std::map<std::string, int64_t> parts;
  int64_t total = 0;
  for (const auto& item : model->named_parameters()) {
    const auto& name = item.key();
    const auto part = name.ends_with("weight_g")           ? "lengths"
                      : name.starts_with("word_emb.emb_l") ? "tables"
                      : name.starts_with("word_emb.emb_p") ? "projections"
                      : name.starts_with("crit.")          ? "softmax"
                      : name.starts_with("inject_conv")    ? "injection"
                      : name.starts_with("func.dec_attn.") ? "attention"
                                                           : "feed-forward";
    parts[part] += item.value().numel();
    total += item.value().numel();
  }
  // The authors count three projections twice, which the softmax shares with the embedding.
  const int64_t tied = 700 * (175 + 43 + 10);
  const std::map<std::string, int64_t> expected{
      {"tables", 25'057'350},   {"projections", 649'600}, {"softmax", 919'438 - tied},
      {"injection", 1'472'100}, {"attention", 2'452'100}, {"feed-forward", 67'248'700},
      {"lengths", 52'200}};
  EXPECT_EQ(parts, expected);
  EXPECT_EQ(total + tied, 97'851'488);
}

TEST_F(TransformerTest, CostsAreTheProbabilitiesOfTargets) {
  auto model = make(small_transformer());
  const auto text = tokens(2, 5), targets = tokens(2, 5);
  const torch::NoGradGuard no_grad;
  const auto [nll, reading] = model->forward(text, targets, {}, kTransformerTight);
  const auto log_p = model->log_probabilities(reading.hidden);
  ASSERT_EQ(log_p.sizes(), (std::vector<int64_t>{2, 5, 19}));
  EXPECT_LT((log_p.exp().sum(-1) - 1).abs().max().item<double>(), 1e-12);
  EXPECT_LT(relative_difference(nll, -log_p.gather(2, targets.unsqueeze(2)).squeeze(2)), 1e-13);
  EXPECT_FALSE(reading.memory.z.defined()) << "at capacity 0 nothing is remembered";
}

TEST_F(TransformerTest, ALaterWordChangesNoEarlierCost) {
  for (const bool pre_ln : {false, true}) {
    auto model = make(small_transformer(pre_ln));
    auto text = tokens(2, 6);
    const auto targets = tokens(2, 6);
    const torch::NoGradGuard no_grad;
    const auto before = model->forward(text, targets, {}, kTransformerTight).nll;
    text.select(1, 4).add_(1).remainder_(19);
    const auto after = model->forward(text, targets, {}, kTransformerTight).nll;
    EXPECT_LT(relative_difference(after.slice(1, 0, 4), before.slice(1, 0, 4)), 1e-10);
    EXPECT_GT(relative_difference(after.select(1, 5), before.select(1, 5)), 1e-6);
  }
}

TEST_F(TransformerTest, ReadsATextInPartsAsAtOnce) {
  for (const bool pre_ln : {false, true}) {
    auto model = make(small_transformer(pre_ln));
    const auto text = tokens(2, 9);
    const torch::NoGradGuard no_grad;
    const auto whole = model->read(text, {.capacity = 20}, kTransformerTight);
    EXPECT_TRUE(whole.equilibrium.report.converged()) << whole.equilibrium.report.brief();
    TransformerMemory memory{.capacity = 20};
    std::vector<torch::Tensor> parts;
    for (const auto& part : text.split_with_sizes({4, 1, 4}, 1)) {
      auto reading = model->read(part, memory, kTransformerTight);
      parts.push_back(reading.hidden);
      memory = reading.memory;
    }
    EXPECT_LT(relative_difference(torch::cat(parts, 1), whole.hidden), 1e-10);
    EXPECT_LT(relative_difference(memory.z, whole.memory.z), 1e-10);
    EXPECT_LT(relative_difference(memory.u, whole.memory.u), 1e-13);
  }
}

TEST_F(TransformerTest, RemembersTheLastPositionsOnly) {
  auto model = make(small_transformer());
  const auto text = tokens(2, 7);
  const auto all = model->read(text, {.capacity = 7}, kTransformerTight);
  EXPECT_TRUE(all.memory.z.equal(all.equilibrium.z()));
  EXPECT_FALSE(all.memory.z.requires_grad() || all.memory.u.requires_grad());
  const auto few = model->read(text, {.capacity = 3}, kTransformerTight).memory;
  EXPECT_EQ(few.length(), 3);
  EXPECT_LT(relative_difference(few.z, all.memory.z.slice(1, 4)), 1e-10);
  // A piece shorter than the memory leaves the newest part of it.
  const auto later = model->read(tokens(2, 1), few, kTransformerTight).memory;
  EXPECT_EQ(later.length(), 3);
  EXPECT_TRUE(later.z.slice(1, 0, 2).equal(few.z.slice(1, 1)));
}

TEST_F(TransformerTest, DropoutHoldsForASolve) {
  auto options = small_transformer();
  options.dropout = 0.3;  // of attention none: a first word that does not see itself stays at 0
  auto model = make(options, /*train=*/true);
  torch::manual_seed(test::seed());
  const auto text = tokens(2, 5);
  const auto reading = model->read(text, {}, kTransformerTight);
  EXPECT_TRUE(reading.equilibrium.report.converged()) << reading.equilibrium.report.brief();
  const auto again = model->read(text, {}, kTransformerTight);
  EXPECT_FALSE(again.hidden.allclose(reading.hidden));
  // The step that is differentiated sees the masks of the solve.
  const auto& at = reading.equilibrium.linearization();
  EXPECT_LT(relative_difference(products_of(at).f(), at.z()), 1e-11);
  // Some features of all positions are dropped.
  const auto zeros = reading.hidden.eq(0);
  EXPECT_TRUE(zeros.all(1).equal(zeros.any(1)));
  EXPECT_TRUE(zeros.any().item<bool>());
}

TEST_F(TransformerTest, OutputDropoutMayDropPositions) {
  auto options = small_transformer();
  options.dropout = 0.5;
  options.output_drops_positions = true;
  auto model = make(options, /*train=*/true);
  torch::manual_seed(test::seed());
  const auto zeros = model->read(tokens(4, 9), {}, kTransformerTight).hidden.eq(0);
  EXPECT_TRUE(zeros.all(2).equal(zeros.any(2)));
  EXPECT_TRUE(zeros.any().item<bool>());
  EXPECT_FALSE(zeros.all().item<bool>());
}

TEST_F(TransformerTest, StartsAsTheReferenceDoes) {
  auto options = small_transformer();
  options.d_inner = 4000;
  const auto spread = [&](const DeqTransformer& model, const std::string& name) {
    return model->named_parameters()[name].std().item<double>();
  };
  const auto reference = make(options);
  const double uniform = 1 / std::sqrt(3.0 * static_cast<double>(options.d_model));
  EXPECT_NEAR(spread(reference, "func.pos_ff.ff1_net.weight_v"), uniform, 0.02 * uniform);
  options.default_init_when_normalised = false;
  EXPECT_NEAR(spread(make(options), "func.pos_ff.ff1_net.weight_v"), 0.3, 0.01);
  options.default_init_when_normalised = true;
  options.weight_norm = false;
  EXPECT_NEAR(spread(make(options), "func.pos_ff.ff1_net.weight"), 0.3, 0.01);
  EXPECT_EQ(spread(make(options), "func.pos_ff.ff1_net.bias"), 0);
}

TEST_F(TransformerTest, PretrainsUnrolled) {
  auto model = make(small_transformer());
  const auto text = tokens(2, 5);
  const auto reading = model->read(text, {}, EquilibriumOptions{.gradient = Unrolled{.steps = 2}});
  const auto inputs = model->cell_inputs(model->inject(text), {});
  const auto context = model->cell()->prepare(inputs);
  auto z = model->cell()->initial_state(inputs);
  for (int k = 0; k < 2; ++k) z = model->cell()->step(z, context);
  EXPECT_LT(relative_difference(reading.hidden, z[0]), 1e-14);
}

TEST_F(TransformerTest, ComputesInBFloat16) {
  DeqTransformer model(small_transformer(), generator_);
  const auto text = tokens(2, 5), targets = tokens(2, 5);
  const EquilibriumOptions plan{.gradient = Unrolled{.steps = 3}};
  const auto exact = model->forward(text, targets, {.capacity = 5}, plan);
  const PrecisionScope scope(Precision::BFloat16, torch::kCPU);
  const auto rounded = model->forward(text, targets, exact.reading.memory, plan);
  EXPECT_EQ(rounded.nll.scalar_type(), torch::kFloat32);
  EXPECT_EQ(rounded.reading.hidden.scalar_type(), torch::kFloat32);
  const auto first = model->forward(text, targets, {}, plan);
  EXPECT_LT(relative_difference(first.nll, exact.nll), 0.05);
}

TEST_F(TransformerTest, SaysWhatIsWrong) {
  const auto message = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const auto with = [&](auto change) {
    auto options = small_transformer();
    change(options);
    return message([&] { DeqTransformer model(options); });
  };
  EXPECT_EQ(with([](auto& o) { o.heads = 0; }), "transformer: heads = 0, must be ≥ 1");
  EXPECT_EQ(with([](auto& o) { o.d_model = 7; }), "transformer: d_model = 7, must be even and ≥ 2");
  EXPECT_EQ(with([](auto& o) { o.dropout = 1; }), "transformer: dropout = 1, must be in [0, 1)");
  EXPECT_EQ(with([](auto& o) { o.horizon = 0; }), "transformer: horizon = 0, must be ≥ 1");
  EXPECT_EQ(with([](auto& o) {
              o.cutoffs = {11, 6};
            }),
            "vocabulary: cutoffs has 6 after 11, they must increase and lie between 0 and words = "
            "19");
  EXPECT_EQ(with([](auto& o) { o.tie_projections = {true}; }),
            "transformer: tie_projections has 1 entries, must have none or one for each of the 3 "
            "clusters");
  auto model = make(small_transformer());
  EXPECT_EQ(message([&] { model->read(tokens(2, 3).flatten(), {}, kTransformerTight); }),
            "transformer: tokens of shape [6] and type Long, must be [B, T] with T ≥ 1, of int64");
  EXPECT_EQ(message([&] { model->forward(tokens(2, 3), tokens(2, 4), {}, kTransformerTight); }),
            "transformer: targets of shape [2, 4] for tokens of shape [2, 3], must be the same");
  const auto memory = model->read(tokens(3, 4), {.capacity = 4}, kTransformerTight).memory;
  EXPECT_EQ(message([&] { model->read(tokens(2, 4), memory, kTransformerTight); }),
            "transformer: a memory of shapes [3, 4, 12] and [3, 4, 30], must be [2, 4, 12] and [2, "
            "4, 30]");
}

}  // namespace
}  // namespace deq::models

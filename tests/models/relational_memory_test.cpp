#include "deq/models/recurrent/relational_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>

#include "deq/core/error.h"
#include "models/gradient_checks.h"
#include "models/recurrent/repeated.h"
#include "support/counted_recorders.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;
using test::relative_difference;
using torch::Tensor;

constexpr int64_t kRelationalWords = 19;

RelationalMemoryOptions small_core(int64_t slots = 3, int64_t blocks = 2,
                                   MemoryGates gates = MemoryGates::Unit) {
  return {.vocabulary = kRelationalWords,
          .cutoffs = {6, 11},
          .div_val = 2,
          .d_model = 7,
          .d_embed = 8,
          .slots = slots,
          .heads = 2,
          .head_size = 4,
          .blocks = blocks,
          .mlp_layers = 2,
          .gates = gates,
          .tie_projections = {false, true, true},
          .embedding_dropout = 0,
          .init_std = 0.3};
}

const std::vector<RelationalMemoryOptions> kSmallCores{
    small_core(), small_core(1, 1), small_core(3, 1, MemoryGates::Memory),
    small_core(2, 3, MemoryGates::None), small_core(1, 2, MemoryGates::Memory)};

/// The publication's equations, one sample, one word, one row and one head at a time.
class PlainCore {
 public:
  PlainCore(const RelationalMemoryOptions& options, const torch::nn::Module& core)
      : options_(options), weights_(core.named_parameters()) {}

  /// The memory [slots, slot size] after a word [d_model].
  Tensor next(const Tensor& memory, const Tensor& word) const {
    const auto x = affine("input", word);
    auto rows = torch::cat({memory, x.unsqueeze(0)});
    for (int64_t i = 0; i < options_.blocks; ++i) {
      const auto name = "block_" + std::to_string(i) + "_";
      rows = normed(name + "attention_norm", rows + attended(name, rows));
      rows = normed(name + "mlp_norm", rows + mlp(rows));
    }
    const auto proposed = rows.narrow(0, 0, options_.slots);
    if (options_.gates == MemoryGates::None) return proposed;
    const auto gates = affine("word_gates", x) + affine("memory_gates", memory.tanh());
    const auto half = gates.size(1) / 2;
    const auto write = gates.narrow(1, 0, half).sigmoid();
    const auto keep = (gates.narrow(1, half, half) + 1).sigmoid();
    return write * proposed.tanh() + keep * memory;
  }

 private:
  Tensor affine(const std::string& name, const Tensor& x) const {
    return x.matmul(weights_[name + ".weight"].t()) + weights_[name + ".bias"];
  }

  Tensor normed(const std::string& name, const Tensor& rows) const {
    std::vector<Tensor> all;
    for (const auto& row : rows.unbind(0)) {
      const auto centred = row - row.mean();
      all.push_back(centred / (centred.square().mean() + 1e-5).sqrt() * weights_[name + ".weight"] +
                    weights_[name + ".bias"]);
    }
    return torch::stack(all);
  }

  Tensor attended(const std::string& name, const Tensor& rows) const {
    const auto qkv = normed(name + "qkv_norm", affine(name + "qkv", rows));
    std::vector<Tensor> heads;
    for (int64_t head = 0; head < options_.heads; ++head) {
      const auto part = [&](int64_t which) {
        return qkv.narrow(1, which * options_.slot_size() + head * options_.head_size,
                          options_.head_size);
      };
      const auto scores =
          part(0).mm(part(1).t()) / std::sqrt(static_cast<double>(options_.head_size));
      heads.push_back(scores.softmax(1).mm(part(2)));
    }
    return torch::cat(heads, 1);
  }

  Tensor mlp(Tensor rows) const {
    for (int64_t i = 0; i < options_.mlp_layers; ++i) {
      if (i > 0) rows = rows.clamp_min(0);
      rows = affine("mlp_" + std::to_string(i), rows);
    }
    return rows;
  }

  RelationalMemoryOptions options_;
  torch::OrderedDict<std::string, Tensor> weights_;
};

/// By the sizes alone.
int64_t expected_parameters(const RelationalMemoryOptions& options) {
  const auto linear = [](int64_t in, int64_t out) { return in * out + out; };
  const auto f = options.heads * options.head_size;
  const auto core = linear(options.d_model, f) +
                    options.blocks * (linear(f, 3 * f) + 2 * 3 * f + 4 * f) +
                    options.mlp_layers * linear(f, f) +
                    (options.gates == MemoryGates::None
                         ? 0
                         : 2 * linear(f, options.gates == MemoryGates::Unit ? 2 * f : 2));
  int64_t words = options.vocabulary;  // a bias for each
  int64_t first = 0, width = options.d_embed;
  auto ends = options.cutoffs;
  ends.push_back(options.vocabulary);
  for (size_t i = 0; i < ends.size(); ++i) {
    const auto tied = i < options.tie_projections.size() && options.tie_projections[i];
    words += (ends[i] - first) * width * (options.tie_weights ? 1 : 2);
    if (options.div_val > 1 || options.d_embed != options.d_model) {
      words += width * options.d_model * (tied ? 1 : 2);
    }
    if (i > 0) words += options.d_embed + 1;  // the cluster's own score
    first = ends[i];
    width /= options.div_val;
  }
  return core + linear(options.slots * f, options.d_model) + words;
}

class RelationalMemoryTest : public test::Seeded {
 protected:
  RelationalMemory make(const RelationalMemoryOptions& options) {
    RelationalMemory model(options, generator_);
    model->to(torch::kFloat64);
    // Norms and biases are to matter.
    const torch::NoGradGuard constant;
    for (auto& parameter : model->parameters()) {
      parameter.add_(torch::randn(parameter.sizes(), generator_, f64()), 0.2);
    }
    return model;
  }

  Tensor words(int64_t batch, int64_t length) {
    return torch::randint(kRelationalWords, {batch, length}, generator_, torch::kInt64);
  }

  /// Words of every cluster.
  Tensor all_clusters(int64_t batch, int64_t length) {
    auto targets = words(batch, length);
    targets[0].narrow(0, 0, 3).copy_(torch::tensor({5, 6, 18}));
    return targets;
  }

  Tensor memory(const RelationalMemoryOptions& options, int64_t batch) {
    return torch::randn({batch, options.slots, options.slot_size()}, generator_, f64());
  }
};

TEST_F(RelationalMemoryTest, FollowsThePublishedEquations) {
  for (const auto& options : kSmallCores) {
    auto model = make(options);
    const auto children = model->named_children();
    const PlainCore plain(options, *children["core"]);
    const auto text = words(2, 4);
    const auto before = memory(options, 2);
    const auto reading = model->read(text, before);
    const auto vectors = children["word_emb"]->as<AdaptiveEmbeddingImpl>()->forward(text);
    for (int64_t sample = 0; sample < 2; ++sample) {
      auto rows = before[sample];
      for (int64_t word = 0; word < 4; ++word) {
        rows = plain.next(rows, vectors[sample][word]);
        const auto hidden =
            children["output"]->as<torch::nn::Linear>()->forward(rows.flatten().unsqueeze(0));
        EXPECT_LT(relative_difference(reading.hidden[sample][word], hidden[0]), 1e-12);
      }
      EXPECT_LT(relative_difference(reading.memory[sample], rows), 1e-12);
    }
  }
}

TEST_F(RelationalMemoryTest, GradientsAreThoseOfDifferences) {
  for (const auto& options : kSmallCores) {
    auto model = make(options);
    const auto text = words(2, 5), targets = all_clusters(2, 5);
    const auto before = memory(options, 2);
    test::expect_gradients_of_differences(
        *model, [&] { return model->forward(text, targets, before).nll.mean(); });
  }
}

TEST_F(RelationalMemoryTest, ReadsATextInPartsAsAtOnce) {
  for (const auto& options : kSmallCores) {
    auto model = make(options);
    const auto text = words(2, 9);
    const auto whole = model->read(text);
    Tensor remembered;
    std::vector<Tensor> parts;
    for (const auto& part : text.split_with_sizes({4, 1, 4}, 1)) {
      auto reading = model->read(part, remembered);
      parts.push_back(reading.hidden);
      remembered = reading.memory;
      EXPECT_FALSE(remembered.requires_grad());
    }
    EXPECT_LT(relative_difference(torch::cat(parts, 1), whole.hidden), 1e-12);
    EXPECT_LT(relative_difference(remembered, whole.memory), 1e-12);
  }
}

TEST_F(RelationalMemoryTest, BeginsWithTheIdentityCutOrPadded) {
  auto options = small_core(3);
  const auto wide = make(options)->first_memory(2);
  EXPECT_TRUE(wide[1].equal(torch::eye(3, 8, f64())));
  options = small_core(10);
  const auto narrow = make(options)->first_memory(2);
  EXPECT_TRUE(narrow[0].narrow(0, 0, 8).equal(torch::eye(8, f64())));
  EXPECT_TRUE(narrow[0].narrow(0, 8, 2).equal(torch::zeros({2, 8}, f64())));
  auto model = make(options);
  const auto text = words(2, 3);
  EXPECT_TRUE(model->read(text).hidden.equal(model->read(text, narrow).hidden));
}

TEST_F(RelationalMemoryTest, AnOpenForgetGateAndAClosedInputGateKeepTheMemory) {
  const auto options = small_core(3, 1, MemoryGates::Memory);
  auto model = make(options);
  const torch::NoGradGuard constant;
  auto parameters = model->named_parameters();
  parameters["core.word_gates.weight"].zero_();
  parameters["core.memory_gates.weight"].zero_();
  parameters["core.memory_gates.bias"].zero_();
  parameters["core.word_gates.bias"].copy_(torch::tensor({-60.0, 60.0}));
  const auto before = memory(options, 2);
  EXPECT_LT(relative_difference(model->read(words(2, 6), before).memory, before), 1e-14);
}

TEST_F(RelationalMemoryTest, ALaterWordChangesNoEarlierCost) {
  auto model = make(small_core());
  auto text = words(2, 6);
  const auto targets = words(2, 6);
  const auto before = model->forward(text, targets).nll;
  text.select(1, 4).add_(1).remainder_(kRelationalWords);
  const auto after = model->forward(text, targets).nll;
  EXPECT_LT(relative_difference(after.slice(1, 0, 4), before.slice(1, 0, 4)), 1e-14);
  EXPECT_GT(relative_difference(after.select(1, 5), before.select(1, 5)), 1e-6);
}

TEST_F(RelationalMemoryTest, DropsOutInTrainingOnly) {
  for (const bool output : {false, true}) {
    auto options = small_core();
    (output ? options.output_dropout : options.embedding_dropout) = 0.3;
    auto model = make(options);
    const auto text = words(2, 5);
    EXPECT_FALSE(model->read(text).hidden.allclose(model->read(text).hidden));
    model->eval();
    EXPECT_TRUE(model->read(text).hidden.equal(model->read(text).hidden));
  }
}

TEST_F(RelationalMemoryTest, CostsAreTheProbabilitiesOfTargets) {
  auto model = make(small_core());
  const auto targets = words(2, 5);
  const auto [nll, reading] = model->forward(words(2, 5), targets);
  const auto log_p = model->log_probabilities(reading.hidden);
  EXPECT_LT(relative_difference(nll, -log_p.gather(2, targets.unsqueeze(2)).squeeze(2)), 1e-13);
}

TEST_F(RelationalMemoryTest, HasAsManyParametersAsItsSizesSay) {
  auto all = kSmallCores;
  all.push_back(small_core());
  all.back().div_val = 1;
  all.back().d_embed = all.back().d_model;
  all.push_back(small_core());
  all.back().tie_weights = false;
  all.back().tie_projections.clear();
  for (const auto& options : all) {
    int64_t sum = 0;
    for (const auto& parameter : RelationalMemory(options, generator_)->parameters()) {
      sum += parameter.numel();
    }
    EXPECT_EQ(sum, expected_parameters(options));
  }
}

// "195M" is said of this network elsewhere. Its authors publish no number, nor which gates theirs
// had; the two kinds lie on either side.
TEST(RelationalMemorySizes, OfThePublishedSettings) {
  RelationalMemoryOptions published;
  EXPECT_EQ(published.units(), 2500);
  EXPECT_EQ(expected_parameters(published), 214'967'606);
  published.gates = MemoryGates::Memory;
  EXPECT_EQ(expected_parameters(published), 189'967'610);
  published.gates = MemoryGates::None;
  EXPECT_EQ(expected_parameters(published), 189'957'606);
}

TEST_F(RelationalMemoryTest, IsReplayedWithTheSameGradients) {
  for (const auto& options : {small_core(2, 2), small_core(1, 1, MemoryGates::Memory)}) {
    auto model = make(options);
    const auto parameters = model->parameters();
    const test::CountedRecorders recorders;
    for (int step = 0; step < 3; ++step) {
      const auto text = words(2, 3), targets = all_clusters(2, 3);
      const auto before = memory(options, 2);
      const auto pass = [&](Replay replay) {
        auto [nll, reading] = model->forward(text, targets, before, replay);
        auto all = torch::autograd::grad({nll.mean()}, parameters);
        all.push_back(reading.memory);
        all.push_back(nll.detach());
        return all;
      };
      const auto evaluated = pass(Replay::Off);
      for (const auto replay : {Replay::Automatic, Replay::Checked}) {
        const auto replayed = pass(replay);
        for (size_t i = 0; i < replayed.size(); ++i) {
          EXPECT_LT(relative_difference(replayed[i], evaluated[i]), 1e-12) << step << ", " << i;
        }
      }
      const torch::NoGradGuard constant;
      for (const auto& parameter : parameters) parameter.add_(0.01);  // as a training would
    }
    EXPECT_GT(recorders.graphs(), 0);
  }
}

TEST_F(RelationalMemoryTest, SaysWhatIsWrong) {
  const auto refused = [](const auto& change, const std::string& field) {
    auto options = small_core();
    change(options);
    try {
      const RelationalMemory model(options);
      ADD_FAILURE() << field;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(field));
    }
  };
  using Options = RelationalMemoryOptions;
  refused([](Options& o) { o.slots = 0; }, "slots = 0");
  refused([](Options& o) { o.heads = 0; }, "heads = 0");
  refused([](Options& o) { o.head_size = -1; }, "head_size = -1");
  refused([](Options& o) { o.blocks = 0; }, "blocks = 0");
  refused([](Options& o) { o.mlp_layers = 0; }, "mlp_layers = 0");
  refused([](Options& o) { o.embedding_dropout = 1; }, "embedding_dropout = 1");
  refused([](Options& o) { o.output_dropout = -0.1; }, "output_dropout = -0.1");
  refused([](Options& o) { o.cutoffs = {6, 30}; }, "cutoffs");
  refused([](Options& o) { o.tie_projections = {true}; }, "tie_projections");
  auto model = make(small_core());
  EXPECT_THROW(model->read(words(2, 4), memory(small_core(), 3)), Error);
  EXPECT_THROW(model->read(words(2, 4), memory(small_core(4), 2)), Error);
  EXPECT_THROW(model->read(words(2, 4).to(torch::kInt32)), Error);
  EXPECT_THROW(model->forward(words(2, 4), words(2, 3)), Error);
}

// ---- Maps that are applied again and again
// ---------------------------------------------------------

TEST_F(RelationalMemoryTest, GradientsOfRepeatedMapsAreThoseOfAutograd) {
  for (const bool norm : {false, true}) {
    const auto draw = [&](torch::IntArrayRef shape) {
      return torch::randn(shape, generator_, f64()).requires_grad_();
    };
    const auto weight = norm ? draw({5}) : draw({5, 5}), bias = draw({5}), x = draw({3, 2, 5});
    const auto loss = [&](const std::function<Tensor(const Tensor&)>& map) {
      auto y = x, sum = torch::zeros({}, f64());
      for (int k = 0; k < 4; ++k) {
        y = map(y.tanh());
        sum = sum + (y * y.detach().sin()).sum();
      }
      return sum;
    };
    const auto plain = loss([&](const Tensor& rows) {
      return norm ? torch::layer_norm(rows, {5}, weight, bias) : torch::linear(rows, weight, bias);
    });
    const auto repeated =
        norm ? Repeated::layer_norm(weight, bias) : Repeated::linear(weight, bias);
    const auto own = loss([&](const Tensor& rows) { return repeated(rows); });
    EXPECT_LT(relative_difference(own, plain), 1e-13);
    const std::vector<Tensor> leaves{x, weight, bias};
    const auto expected = torch::autograd::grad({plain}, leaves);
    // Asked for some of them before, and for all of them twice.
    const auto first = torch::autograd::grad({own}, {x}, {}, /*retain_graph=*/true);
    EXPECT_LT(relative_difference(first[0], expected[0]), 1e-12);
    for (const bool retains : {true, false}) {
      const auto found = torch::autograd::grad({own}, leaves, {}, retains);
      for (size_t i = 0; i < leaves.size(); ++i) {
        EXPECT_LT(relative_difference(found[i], expected[i]), 1e-12) << i;
      }
    }
    const auto twice = loss([&](const Tensor& rows) { return repeated(rows); });
    EXPECT_THROW(torch::autograd::grad({twice}, leaves, {}, true, /*create_graph=*/true),
                 std::exception);
  }
}

}  // namespace
}  // namespace deq::models

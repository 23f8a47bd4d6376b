#include "deq/models/transformer/gpt2.h"

#include <gtest/gtest.h>

#include <cmath>

#include "deq/core/error.h"
#include "models/gpt2_small.h"
#include "models/gradient_checks.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::relative_difference;
using test::small_clustered_gpt2;
using test::small_gpt2;

/// GPT-2 by its formula, from the parameters by name: every head and every word by itself.
struct PlainGpt2 {
  Gpt2Options options;
  torch::OrderedDict<std::string, torch::Tensor> parameters;

  torch::Tensor affine(const std::string& name, const torch::Tensor& x) const {
    return x.matmul(parameters[name + ".weight"].t()) + parameters[name + ".bias"];
  }

  torch::Tensor norm(const std::string& name, const torch::Tensor& x) const {
    const auto centred = x - x.mean(-1, true);
    const auto normal = centred / (centred.square().mean(-1, true) + 1e-5).sqrt();
    return normal * parameters[name + ".weight"] + parameters[name + ".bias"];
  }

  static torch::Tensor gelu(const torch::Tensor& x) {
    return 0.5 * x * (1 + (std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh());
  }

  /// [T, d_model] of [T, d_model].
  torch::Tensor attention(const std::string& layer, const torch::Tensor& x) const {
    const auto d = options.d_model, width = d / options.heads;
    const auto qkv = affine(layer + ".qkv", x);
    std::vector<torch::Tensor> rows;
    for (int64_t i = 0; i < x.size(0); ++i) {
      std::vector<torch::Tensor> heads;
      for (int64_t head = 0; head < options.heads; ++head) {
        const auto slice = [&](int64_t which, int64_t row) {
          return qkv[row].narrow(0, which * d + head * width, width);
        };
        std::vector<torch::Tensor> scores, values;
        for (int64_t j = 0; j <= i; ++j) {
          scores.push_back(slice(0, i).dot(slice(1, j)) / std::sqrt(static_cast<double>(width)));
          values.push_back(slice(2, j));
        }
        const auto exp = torch::stack(scores).exp();
        heads.push_back((exp / exp.sum()).unsqueeze(0).mm(torch::stack(values)).squeeze(0));
      }
      rows.push_back(torch::cat(heads));
    }
    return affine(layer + ".attention_out", torch::stack(rows));
  }

  /// Logits [T, words] of words [T].
  torch::Tensor logits(const torch::Tensor& words) const {
    const auto& table = parameters["word_emb.emb_layers.0.weight"];
    auto x = table.index_select(0, words) +
             parameters["position_emb.weight"].narrow(0, 0, words.size(0));
    for (int64_t i = 0; i < options.layers; ++i) {
      const auto layer = "layers." + std::to_string(i);
      x = x + attention(layer, norm(layer + ".attention_norm", x));
      const auto inner = gelu(affine(layer + ".inner", norm(layer + ".feed_forward_norm", x)));
      x = x + affine(layer + ".outer", inner);
    }
    return norm("final_norm", x).matmul(table.t()) + parameters["crit.out_layers.0.bias"];
  }
};

class Gpt2Test : public test::Seeded {
 protected:
  GPT2 make(const Gpt2Options& options) {
    GPT2 model(options, generator_);
    model->to(torch::kFloat64);
    const torch::NoGradGuard no_grad;  // so that no bias and no norm is what it is at the start
    for (const auto& parameter : model->parameters()) {
      if (parameter.dim() == 1)
        parameter.add_(torch::randn(parameter.sizes(), generator_, f64()), 0.3);
    }
    return model;
  }

  static torch::TensorOptions f64() { return torch::kFloat64; }

  torch::Tensor tokens(int64_t batch, int64_t length) {
    return torch::randint(19, {batch, length}, generator_, torch::kInt64);
  }
};

TEST_F(Gpt2Test, IsItsFormula) {
  const auto options = small_gpt2();
  auto model = make(options);
  const PlainGpt2 plain{.options = options, .parameters = model->named_parameters()};
  const auto text = tokens(2, 7), targets = tokens(2, 7);
  const auto output = model->forward(text, targets, {});
  const auto log_p = model->log_probabilities(output.reading.hidden);
  for (int64_t row = 0; row < 2; ++row) {
    const auto expected = plain.logits(text[row]).log_softmax(-1);
    EXPECT_LT(relative_difference(log_p[row], expected), 1e-13);
    const auto nll = -expected.gather(1, targets[row].unsqueeze(1)).squeeze(1);
    EXPECT_LT(relative_difference(output.nll[row], nll), 1e-13);
  }
}

TEST_F(Gpt2Test, ALaterWordChangesNoEarlierCost) {
  auto model = make(small_gpt2());
  auto text = tokens(2, 6);
  const auto targets = tokens(2, 6);
  const auto before = model->forward(text, targets, {}).nll;
  text.select(1, 4).add_(1).remainder_(19);
  const auto after = model->forward(text, targets, {}).nll;
  EXPECT_LT(relative_difference(after.slice(1, 0, 4), before.slice(1, 0, 4)), 1e-14);
  EXPECT_GT(relative_difference(after.select(1, 5), before.select(1, 5)), 1e-6);
}

TEST_F(Gpt2Test, MemoryIsAWindowThatIsReadAgain) {
  auto model = make(small_clustered_gpt2());
  const auto text = tokens(2, 14);
  constexpr int64_t kCapacity = 5;
  Gpt2Memory memory{.capacity = kCapacity};
  int64_t begin = 0;
  for (const auto& part : text.split_with_sizes({4, 3, 1, 4, 2}, 1)) {
    const auto reading = model->read(part, memory);
    const auto first = std::max<int64_t>(begin - kCapacity, 0), end = begin + part.size(1);
    const auto alone = model->read(text.slice(1, first, end), {});
    EXPECT_TRUE(reading.hidden.equal(alone.hidden.slice(1, begin - first))) << begin;
    memory = reading.memory;
    EXPECT_TRUE(memory.tokens.equal(text.slice(1, std::max<int64_t>(end - kCapacity, 0), end)));
    EXPECT_EQ(memory.capacity, kCapacity);
    EXPECT_FALSE(alone.memory.tokens.defined());
    begin = end;
  }
}

TEST_F(Gpt2Test, GradientsAreThoseOfDifferences) {
  for (const auto& options : {small_gpt2(), small_clustered_gpt2()}) {
    auto model = make(options);
    const auto text = tokens(2, 5), targets = tokens(2, 5), past = tokens(2, 3);
    test::expect_gradients_of_differences(*model, [&] {
      return model->forward(text, targets, {.capacity = 3, .tokens = past}).nll.mean();
    });
  }
}

TEST_F(Gpt2Test, StartsAsPublished) {
  auto options = small_gpt2(8);
  options.d_model = options.d_embed = 64;
  options.d_inner = 256;
  options.vocabulary = 500;
  options.positions = 100;
  options.init_std = 0.02;
  GPT2 model(options, generator_);
  for (const auto& item : model->named_parameters()) {
    const auto& name = item.key();
    const auto& value = item.value();
    if (value.dim() == 1) {
      const bool is_scale = name.ends_with("norm.weight");
      EXPECT_TRUE(value.eq(is_scale ? 1 : 0).all().item<bool>()) << name;
      continue;
    }
    const bool adds = name.ends_with("attention_out.weight") || name.ends_with("outer.weight");
    // The standard deviation of n numbers is off by a share of 1/√(2n), give or take; this is six
    // of them.
    const double far = 6 / std::sqrt(2.0 * static_cast<double>(value.numel()));
    EXPECT_NEAR(value.std().item<double>() / (adds ? 0.02 / 4 : 0.02), 1, far) << name;
  }
}

TEST_F(Gpt2Test, DropsOutInTrainingOnly) {
  for (const bool of_attention : {false, true}) {
    auto options = small_gpt2();
    (of_attention ? options.attention_dropout : options.dropout) = 0.3;
    auto model = make(options);
    const auto text = tokens(2, 5);
    EXPECT_FALSE(model->read(text, {}).hidden.allclose(model->read(text, {}).hidden));
    model->eval();
    EXPECT_TRUE(model->read(text, {}).hidden.equal(model->read(text, {}).hidden));
  }
}

// 12 l h² of the layers' matrices, 13 l h of their vectors, embeddings of words and positions, the
// last norm; and the softmax's bias, which GPT-2 has not.
TEST(Gpt2Sizes, ArePublished) {
  const auto formula = [](const Gpt2Options& o) {
    const auto l = o.layers, h = o.d_model;
    return 12 * l * h * h + 13 * l * h + (o.vocabulary + o.positions) * h + 2 * h + o.vocabulary;
  };
  const std::vector<std::pair<std::string, double>> published{
      {"355m", 355e6}, {"2.5b", 2.5e9}, {"8.3b", 8.3e9}};
  for (const auto& [name, about] : published) {
    const auto options = gpt2_preset(name);
    EXPECT_EQ(options.vocabulary, 51'200);
    EXPECT_EQ(options.positions, 1024);
    EXPECT_EQ(parameter_count(options), formula(options)) << name;
    EXPECT_NEAR(static_cast<double>(parameter_count(options)) / about, 1, 0.005) << name;
  }
  EXPECT_EQ(gpt2_preset_names(), (std::vector<std::string>{"355m", "2.5b", "8.3b"}));
  EXPECT_THROW(gpt2_preset("1.5b"), Error);
}

TEST(Gpt2Sizes, AreThoseOfTheModule) {
  auto projected = small_gpt2();
  projected.d_embed = 8;
  auto untied = small_clustered_gpt2();
  untied.tie_weights = false;
  untied.tie_projections.clear();
  auto one_table = small_clustered_gpt2();
  one_table.div_val = 1;
  for (const auto& options :
       {small_gpt2(), small_clustered_gpt2(3), projected, untied, one_table}) {
    int64_t count = 0;
    const GPT2 model(options);
    for (const auto& parameter : model->parameters()) count += parameter.numel();
    EXPECT_EQ(parameter_count(options), count);
  }
}

TEST_F(Gpt2Test, TellsWhatIsTied) {
  const auto names = make(small_gpt2())->tied();
  ASSERT_EQ(names.size(), 1U);
  EXPECT_EQ(names[0].first, "crit.out_layers.0.weight");
  EXPECT_EQ(names[0].second, "word_emb.emb_layers.0.weight");
}

TEST_F(Gpt2Test, SaysWhatIsWrong) {
  const auto refused = [](const auto& change) {
    auto options = small_gpt2();
    change(options);
    try {
      GPT2{options};
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused([](auto& o) { o.layers = 0; }), "gpt2: layers = 0, must be ≥ 1");
  EXPECT_EQ(refused([](auto& o) { o.heads = 5; }),
            "gpt2: d_model = 12, must be a multiple of heads = 5");
  EXPECT_EQ(refused([](auto& o) { o.positions = 0; }), "gpt2: positions = 0, must be ≥ 1");
  EXPECT_EQ(refused([](auto& o) { o.dropout = 1; }), "gpt2: dropout = 1, must be in [0, 1)");
  EXPECT_THROW(validate(small_gpt2(), 3), Error);

  auto model = make(small_gpt2());
  const auto said = [&](const torch::Tensor& text, const Gpt2Memory& memory) {
    try {
      model->read(text, memory);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(said(tokens(2, 10), {}),
            "gpt2: 0 remembered words and 10 new ones, must be at most positions = 9 together");
  EXPECT_EQ(said(tokens(2, 5), {.capacity = 5, .tokens = tokens(2, 5)}),
            "gpt2: 5 remembered words and 5 new ones, must be at most positions = 9 together");
  EXPECT_EQ(said(tokens(2, 5), {.tokens = tokens(3, 2)}),
            "gpt2: a memory of 3 rows for a text of 2, must be as many");
  EXPECT_EQ(said(tokens(2, 5), {.capacity = -1}), "gpt2: a memory's capacity = -1, must be ≥ 0");
  EXPECT_NE(said(tokens(2, 5).to(torch::kFloat32), {}), "nothing");
  EXPECT_NE(said(tokens(2, 5), {.tokens = torch::zeros({2, 3})}), "nothing");
  EXPECT_NE(said(tokens(2, 5) + 19, {}), "nothing");
  EXPECT_THROW(model->forward(tokens(2, 5), tokens(2, 4), {}), Error);
}

}  // namespace
}  // namespace deq::models

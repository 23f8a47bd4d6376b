#include "deq/models/transformer/adaptive_softmax.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <atomic>
#include <cmath>
#include <memory>

#include "deq/core/error.h"
#include "support/maps.h"
#include "support/seed.h"

namespace deq::models {
namespace {

using test::f64;
using test::relative_difference;

struct Case {
  const char* name;
  AdaptiveVocabulary vocabulary;
  AdaptiveTies ties;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

const Case kCases[] = {
    {"OneCluster", {.words = 13, .d_model = 6, .d_embed = 6}, {}},
    {"OneClusterProjected", {.words = 13, .d_model = 6, .d_embed = 4}, {.projections = {true}}},
    {"OneTable",
     {.words = 17, .cutoffs = {5, 6, 11}, .d_model = 6, .d_embed = 6},
     {.weights = false}},
    {"OneTableProjected",
     {.words = 17, .cutoffs = {5, 11}, .d_model = 6, .d_embed = 4},
     {.projections = {false, true, true}}},
    {"NarrowingTied",
     {.words = 23, .cutoffs = {7, 8, 20}, .d_model = 6, .d_embed = 9, .div_val = 2},
     {.projections = {false, true, false, true}}},
    {"NarrowingUntied",
     {.words = 23, .cutoffs = {1, 22}, .d_model = 6, .d_embed = 9, .div_val = 3},
     {.weights = false}},
    {"NamedAsParameters",
     {.words = 9,
      .cutoffs = {4},
      .d_model = 6,
      .d_embed = 6,
      .div_val = 2,
      .projections_are_layers = false},
     {.projections = {true, true}}},
};

class AdaptiveTest : public test::SeededWith<Case> {
 protected:
  AdaptiveTest() {
    auto vocabulary = GetParam().vocabulary;
    vocabulary.init_std = vocabulary.projection_init_std = 0.7;
    embedding_ = AdaptiveEmbedding(vocabulary, generator_);
    softmax_ = AdaptiveSoftmax(embedding_, GetParam().ties, generator_);
    embedding_->to(torch::kFloat64);
    softmax_->to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (auto& item : softmax_->named_parameters()) {
      if (item.key().ends_with("bias")) item.value().normal_(0, 1, generator_);
    }
    for (const auto& item : embedding_->named_parameters()) {
      parameters_[item.key()] = item.value();
    }
    for (const auto& item : softmax_->named_parameters()) parameters_[item.key()] = item.value();
    for (const auto& [name, owner] : softmax_->tied()) parameters_[name] = parameters_.at(owner);
  }

  /// A parameter by its published name; undefined where the case has none.
  torch::Tensor parameter(const std::string& list, int64_t index, const char* what = "") const {
    for (const auto& name :
         {fmt::format("{}.{}{}", list, index, what), fmt::format("{}.{}", list, index)}) {
      if (parameters_.contains(name)) return parameters_.at(name);
    }
    return {};
  }

  /// All words' scores within their cluster, cluster by cluster: [N, size].
  torch::Tensor scores(const torch::Tensor& hidden, int64_t cluster) const {
    const auto projection = parameter("out_projs", cluster, ".weight");
    const auto x = projection.defined() ? hidden.mm(projection) : hidden;
    const bool whole = vocabulary().div_val == 1;
    auto table = parameter("out_layers", whole ? 0 : cluster, ".weight");
    auto bias = parameter("out_layers", whole ? 0 : cluster, ".bias");
    if (whole) {
      const auto from = vocabulary().first_word(cluster), to = vocabulary().first_word(cluster + 1);
      table = table.slice(0, from, to);
      bias = bias.slice(0, from, to);
    }
    if (cluster == 0 && vocabulary().clusters() > 1) {
      table = torch::cat({table, parameters_.at("cluster_weight")});
      bias = torch::cat({bias, parameters_.at("cluster_bias")});
    }
    return x.mm(table.t()) + bias;
  }

  /// p of every word by the formula: p(word) = p(cluster) · p(word | cluster).
  torch::Tensor probabilities(const torch::Tensor& hidden) const {
    const auto first = scores(hidden, 0).exp() / scores(hidden, 0).exp().sum(1, true);
    std::vector<torch::Tensor> p{first.slice(1, 0, vocabulary().size(0))};
    for (int64_t i = 1; i < vocabulary().clusters(); ++i) {
      const auto within = scores(hidden, i).exp();
      p.push_back(first.select(1, first.size(1) - i).unsqueeze(1) * within / within.sum(1, true));
    }
    return torch::cat(p, 1);
  }

  torch::Tensor vectors(int64_t count) {
    return torch::randn({count, vocabulary().d_model}, generator_, f64());
  }

  const AdaptiveVocabulary& vocabulary() const { return embedding_->vocabulary(); }

  AdaptiveEmbedding embedding_{nullptr};
  AdaptiveSoftmax softmax_{nullptr};
  std::map<std::string, torch::Tensor> parameters_;
};

INSTANTIATE_TEST_SUITE_P(All, AdaptiveTest, ::testing::ValuesIn(kCases), name_of);

TEST_P(AdaptiveTest, EmbedsEveryWordWithItsOwnRow) {
  const auto words = vocabulary().words;
  const auto tokens = torch::randperm(words, generator_).view({1, words});
  const auto embedded = embedding_(tokens);
  ASSERT_EQ(embedded.sizes(), (std::vector<int64_t>{1, words, vocabulary().d_model}));
  for (int64_t i = 0; i < words; ++i) {
    const auto word = tokens[0][i].item<int64_t>();
    int64_t cluster = 0;
    if (vocabulary().div_val > 1) {
      while (word >= vocabulary().first_word(cluster + 1)) ++cluster;
    }
    const auto row =
        parameter("emb_layers", cluster, ".weight")[word - vocabulary().first_word(cluster)];
    const auto projection = parameter("emb_projs", cluster, ".weight");
    const auto expected = (projection.defined() ? projection.mv(row) : row) *
                          std::sqrt(static_cast<double>(vocabulary().d_model));
    EXPECT_LT(relative_difference(embedded[0][i], expected), 1e-14) << "word " << word;
  }
}

TEST_P(AdaptiveTest, ProbabilitiesAreThoseOfTheFormulaAndSumToOne) {
  const auto hidden = vectors(4).view({2, 2, -1});
  const auto p = softmax_->log_probabilities(hidden).exp();
  ASSERT_EQ(p.sizes(), (std::vector<int64_t>{2, 2, vocabulary().words}));
  EXPECT_LT(relative_difference(p.flatten(0, 1), probabilities(hidden.flatten(0, 1))), 1e-13);
  EXPECT_LT((p.sum(-1) - 1).abs().max().item<double>(), 1e-13);
}

TEST_P(AdaptiveTest, CostsOfTargetsAreTheirProbabilities) {
  const auto words = vocabulary().words;
  const auto targets = torch::randperm(words, generator_);
  const auto hidden = vectors(words);
  const auto nll = softmax_(hidden, targets);
  const auto expected = -probabilities(hidden).log().gather(1, targets.unsqueeze(1)).squeeze(1);
  EXPECT_LT(relative_difference(nll, expected), 1e-13);
}

TEST_P(AdaptiveTest, ClustersWithoutTargetsAreLeftOut) {
  // All targets of one cluster, for every cluster in turn.
  for (int64_t i = 0; i < vocabulary().clusters(); ++i) {
    const auto hidden = vectors(3);
    const auto targets = torch::full({3}, vocabulary().first_word(i + 1) - 1, torch::kInt64);
    const auto expected = -probabilities(hidden).log().gather(1, targets.unsqueeze(1)).squeeze(1);
    EXPECT_LT(relative_difference(softmax_(hidden, targets), expected), 1e-13) << "cluster " << i;
    const auto embedded = embedding_(targets);
    EXPECT_LT(relative_difference(embedded, embedded[0].expand_as(embedded)), 1e-15);
  }
}

TEST_P(AdaptiveTest, GradientsAreThoseOfTheFormula) {
  const auto words = vocabulary().words;
  const auto targets = torch::randint(words, {8}, generator_, torch::kInt64);
  const auto hidden = vectors(8).requires_grad_();
  const auto weights = torch::randn({8}, generator_, f64());
  std::vector<torch::Tensor> inputs = softmax_->parameters();
  inputs.push_back(hidden);
  for (const auto& parameter : embedding_->parameters()) inputs.push_back(parameter);
  const auto grad = [&](const torch::Tensor& nll) {
    return torch::autograd::grad({(nll * weights).sum()}, inputs, {}, {}, false,
                                 /*allow_unused=*/true);
  };
  const auto own = grad(softmax_(hidden, targets));
  const auto expected =
      grad(-probabilities(hidden).log().gather(1, targets.unsqueeze(1)).squeeze(1));
  for (size_t i = 0; i < own.size(); ++i) {
    // The formula computes all clusters, also those without a target: their gradient is zero.
    const auto value = own[i].defined() ? own[i] : torch::zeros_like(inputs[i]);
    const auto wanted = expected[i].defined() ? expected[i] : torch::zeros_like(inputs[i]);
    EXPECT_LT((value - wanted).abs().max().item<double>(),
              1e-12 * std::max(1.0, wanted.abs().max().item<double>()))
        << "input " << i;
  }
}

TEST_P(AdaptiveTest, NamesItsWordsAndSharedParameters) {
  for (const auto& [name, owner] : softmax_->tied()) {
    EXPECT_EQ(softmax_->named_parameters().find(name), nullptr) << name;
    EXPECT_NE(embedding_->named_parameters().find(owner), nullptr) << owner;
  }
  const auto beyond = torch::tensor({int64_t{0}, vocabulary().words});
  EXPECT_THROW(embedding_(beyond), Error);
  EXPECT_THROW(softmax_(vectors(2), beyond), Error);
  EXPECT_THROW(embedding_(torch::tensor({int64_t{-1}})), Error);
}

/// Watches all operations, on all threads, for the largest tensor that one gives.
class LargestTensor {
 public:
  LargestTensor()
      : handle_(at::addGlobalCallback(at::RecordFunctionCallback(begin, end)
                                          .needsOutputs(true)
                                          .scopes({at::RecordScope::FUNCTION}))) {
    largest = 0;
  }
  LargestTensor(const LargestTensor&) = delete;
  LargestTensor& operator=(const LargestTensor&) = delete;
  ~LargestTensor() { at::removeCallback(handle_); }

  int64_t numel() const { return largest; }

 private:
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) { return nullptr; }
  static void end(const at::RecordFunction& operation, at::ObserverContext*) {
    for (const auto& output : operation.outputs()) {
      if (!output.isTensor() || !output.toTensor().defined()) continue;
      const auto numel = output.toTensor().numel();
      for (auto seen = largest.load();
           numel > seen && !largest.compare_exchange_weak(seen, numel);) {
      }
    }
  }

  static inline std::atomic<int64_t> largest{0};
  at::CallbackHandle handle_;
};

TEST(AdaptiveSoftmaxMemory, TrainingHasNeverTheScoresOfAllTokensAndWords) {
  const int64_t tokens = 1200, words = 9000, first = 3000;
  const AdaptiveVocabulary vocabulary{
      .words = words, .cutoffs = {first}, .d_model = 8, .d_embed = 8, .div_val = 2};
  const auto text = torch::randint(words, {2, tokens / 2}, test::generator(), torch::kInt64);
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    AdaptiveEmbedding embedding(vocabulary, test::generator(1));
    AdaptiveSoftmax softmax(embedding, AdaptiveTies{}, test::generator(2));
    embedding->to(type);
    softmax->to(type);
    {
      const LargestTensor largest;
      softmax(embedding(text), text).mean().backward();
      EXPECT_GT(largest.numel(), words);
      // The kernel does not even have the scores of the first cluster's words.
      EXPECT_LT(largest.numel(), type == torch::kFloat32 ? tokens * first / 4 : tokens * words);
    }
    const LargestTensor dense;
    softmax->log_probabilities(embedding(text));
    EXPECT_GE(dense.numel(), tokens * words) << "the watch sees nothing";
  }
}

/// The message of the Error that `action` throws.
template <class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(AdaptiveVocabularyTest, SaysWhatIsWrongWithOptions) {
  const auto message = [](const AdaptiveVocabulary& vocabulary) {
    return message_of([&] { validate(vocabulary); });
  };
  const AdaptiveVocabulary good{
      .words = 10, .cutoffs = {3, 6}, .d_model = 4, .d_embed = 4, .div_val = 2};
  validate(good);
  auto bad = good;
  bad.cutoffs = {6, 3};
  EXPECT_EQ(message(bad),
            "vocabulary: cutoffs has 3 after 6, they must increase and lie between 0 and words = "
            "10");
  bad.cutoffs = {3, 10};
  EXPECT_EQ(message(bad),
            "vocabulary: cutoffs has 10 after 3, they must increase and lie between 0 and words = "
            "10");
  bad.cutoffs = {0, 3};
  EXPECT_EQ(message(bad),
            "vocabulary: cutoffs has 0 after 0, they must increase and lie between 0 and words = "
            "10");
  bad = good;
  bad.div_val = 3;
  EXPECT_EQ(message(bad),
            "vocabulary: d_embed = 4 leaves no width for cluster 2, must be ≥ div_val^2 with "
            "div_val = 3");
  bad = good;
  bad.words = 0;
  EXPECT_EQ(message(bad), "vocabulary: words = 0, must be ≥ 1");
  EXPECT_EQ(message_of([&] {
              AdaptiveSoftmax(AdaptiveEmbedding(good), AdaptiveTies{true, {true}});
            }),
            "vocabulary: tie_projections has 1 entries, must have none or one for each of the 3 "
            "clusters");
  EXPECT_EQ(message_of([&] {
              AdaptiveEmbedding(good)->forward(torch::tensor({3, 12}, torch::kInt64));
            }),
            "vocabulary: 1 of 2 tokens are no words, they must lie in [0, 10)");
}

}  // namespace
}  // namespace deq::models

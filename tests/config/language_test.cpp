#include "deq/lab/settings/language.h"
#include "config/source_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "deq/lab/settings/files.h"
#include "deq/models/transformer/gpt2_footprint.h"

namespace deq::lab {
namespace {

namespace fs = std::filesystem;

TEST(LanguageConfig, EveryFileOfTheProjectIsRead) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kSource / "configs")) {
    if (entry.is_directory() || entry.path().parent_path().filename() == "reproduce") continue;
    if (experiment_of(entry.path()) != "language") continue;
    const auto text = to_toml(load_config<LanguageConfig>(entry.path()));
    EXPECT_EQ(to_toml(parse_config<LanguageConfig>(text, "effective")), text) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 20);
}

TEST(LanguageConfig, ThePapersModelIsTheDefault) {
  const auto config =
      load_config<LanguageConfig>(kSource / "configs/paper/wikitext103-deq-post-ln-jr.toml");
  const auto& model = std::get<DeqTransformerModel>(config.model);
  const models::TransformerOptions published;
  EXPECT_EQ(model.cutoffs, published.cutoffs);
  EXPECT_EQ(model.d_model, published.d_model);
  EXPECT_EQ(model.d_inner, published.d_inner);
  EXPECT_EQ(model.heads, published.heads);
  EXPECT_EQ(model.d_head, published.d_head);
  EXPECT_EQ(model.dropout, published.dropout);
  EXPECT_FALSE(model.pre_ln);
  EXPECT_TRUE(model.weight_norm);
}

TEST(LanguageConfig, ThePublishedQrnnIsTheDefault) {
  const auto config =
      load_config<LanguageConfig>(kSource / "configs/paper/wikitext103-awd-qrnn.toml");
  const auto& model = std::get<QrnnModel>(config.model);
  const models::QrnnOptions published;
  EXPECT_EQ(model.cutoffs, published.cutoffs);
  EXPECT_EQ(model.layers, published.layers);
  EXPECT_EQ(model.d_embed, published.d_embed);
  EXPECT_EQ(model.d_hidden, published.d_hidden);
  EXPECT_EQ(model.window, published.window);
  EXPECT_EQ(model.hidden_dropout, published.hidden_dropout);
  // The rate falls after 12 of 14 epochs: 103,227,021 words in 60 streams, 140 of each in a step.
  const int64_t steps = (103'227'021 / 60 - 1 + 139) / 140;
  const auto rate = [&](int64_t epoch) {
    return config.train.lr_schedule.at(epoch * steps, 14 * steps, config.train.lr);
  };
  EXPECT_EQ(rate(0), 1e-3);
  EXPECT_EQ(config.train.lr_schedule.at(12 * steps - 1, 14 * steps, 1e-3), 1e-3);
  EXPECT_NEAR(rate(12), 1e-4, 1e-12);
  EXPECT_NEAR(rate(13), 1e-4, 1e-12);
}

TEST(LanguageConfig, ThePublishedRelationalMemoryIsTheDefault) {
  const auto config =
      load_config<LanguageConfig>(kSource / "configs/paper/wikitext103-relational-memory.toml");
  const auto& model = std::get<RelationalMemoryModel>(config.model);
  const models::RelationalMemoryOptions published;
  EXPECT_EQ(model.cutoffs, published.cutoffs);
  EXPECT_EQ(model.d_model, published.d_model);
  EXPECT_EQ(model.d_embed, published.d_embed);
  EXPECT_EQ(model.div_val, published.div_val);
  EXPECT_EQ(model.slots, published.slots);
  EXPECT_EQ(model.units(), 2500);
  EXPECT_EQ(model.heads, published.heads);
  EXPECT_EQ(model.blocks, published.blocks);
  EXPECT_EQ(model.mlp_layers, published.mlp_layers);
  EXPECT_EQ(model.gates, published.gates);
  EXPECT_EQ(model.embedding_dropout, published.embedding_dropout);
  EXPECT_EQ(model.output_dropout, published.output_dropout);
  EXPECT_EQ(config.train.batch_size, 384);
  EXPECT_EQ(config.train.clip_norm, 0.1);
  EXPECT_EQ(config.train.lr, 1e-3);
  EXPECT_EQ(config.data.segment, 100);
}

TEST(LanguageConfig, TheSmallestPublishedGpt2FitsOneGpu) {
  const auto config =
      load_config<LanguageConfig>(kSource / "configs/paper/wikitext103-gpt2-355m.toml");
  models::Gpt2Options model = std::get<Gpt2Model>(config.model);
  model.vocabulary = 267'735;  // WikiText-103's words
  model.tie_projections = {false, true, true, true};
  EXPECT_EQ(models::parameter_count(model), 342'995'786);
  const auto& train = config.train;
  ASSERT_EQ(train.batch_size % train.accumulation, 0);
  const auto bytes = [&](int64_t rows) {
    const auto one = models::gpt2_footprint(model, {.batch = rows, .words = config.data.segment});
    return one.states() + one.activations.everything + one.activations.outside;
  };
  EXPECT_LT(bytes(train.batch_size / train.accumulation), 0.6 * 80e9);
  EXPECT_GT(bytes(train.batch_size), 141e9) << "without accumulation";
  // As often through the text as the DEQ-Transformer.
  const auto deq =
      load_config<LanguageConfig>(kSource / "configs/paper/wikitext103-deq-post-ln-jr.toml");
  EXPECT_FALSE(train.steps.has_value());
  EXPECT_EQ(train.epochs, deq.train.epochs);
  const auto largest =
      load_config<LanguageConfig>(kSource / "configs/paper/wikitext103-gpt2-8.3b.toml");
  EXPECT_EQ(largest.train.steps, 300'000);
  EXPECT_EQ(largest.train.lr_schedule.warmup_steps, 3000);
}

// What a file of a set is called is what it changes, for the paper's corpus and for the small one.
TEST(LanguageConfig, BothSetsHoldTheSameExperiments) {
  for (const std::string start : {"paper/wikitext103-", "books/"}) {
    const auto load = [&](const std::string& name) {
      return load_config<LanguageConfig>(kSource / ("configs/" + start + name + ".toml"));
    };
    const auto deq = [](const LanguageConfig& config) {
      return std::get<DeqTransformerModel>(config.model);
    };
    for (const std::string norm : {"post", "pre"}) {
      for (const std::string end : {"", "-jr"}) {
        EXPECT_EQ(deq(load("deq-" + norm + "-ln" + end)).pre_ln, norm == "pre") << start;
      }
    }
    EXPECT_FALSE(deq(load("deq-post-ln-no-weight-norm")).weight_norm) << start;
    EXPECT_TRUE(deq(load("deq-post-ln-weight-decay")).weight_norm) << start;
    EXPECT_EQ(max_evals(load("deq-post-ln").solver.forward), 30) << start;
    for (const int64_t evaluations : {20, 15}) {
      const auto config = load("deq-post-ln-nfe-" + std::to_string(evaluations));
      EXPECT_EQ(max_evals(config.solver.forward), evaluations) << start;
      EXPECT_EQ(max_evals(config.solver.adjoint), evaluations) << start;
    }
    EXPECT_EQ(load("deq-post-ln-jr-300").data.segment, 300) << start;
    EXPECT_TRUE(std::holds_alternative<TransformerXlModel>(load("transformer-xl").model)) << start;
    EXPECT_TRUE(std::holds_alternative<QrnnModel>(load("awd-qrnn").model)) << start;
    EXPECT_TRUE(std::holds_alternative<RelationalMemoryModel>(load("relational-memory").model))
        << start;
    const auto* gpt2 = start == "books/" ? "gpt2" : "gpt2-355m";
    EXPECT_TRUE(std::holds_alternative<Gpt2Model>(load(gpt2).model)) << start;
  }
}

}  // namespace
}  // namespace deq::lab

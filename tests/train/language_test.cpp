#include "deq/lab/tasks/language.h"
#include "deq/lab/settings/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "config/source_folder.h"
#include "core/rng.h"
#include "deq/core/error.h"
#include "deq/lab/settings/files.h"
#include "deq/lab/tasks/experiment.h"
#include "io/temporary_folder.h"
#include "lab/networks/language_network.h"
#include "lab/tasks/stream_memory.h"

namespace deq::lab {
namespace {

const std::string kTransformerXl = "name = \"transformer-xl\"\nlayers = 2\n";
const std::string kAttention = "d_model = 12\nheads = 2\nd_head = 6\nd_inner = 16\n";

class Language : public ::testing::Test {
 protected:
  Language() {
    for (const char* split : {"train", "valid"}) {
      std::ofstream file(folder_ / (std::string(split) + ".txt"));
      for (int i = 0; i < 90; ++i) file << "w" << (i * i + 3 * i) % 11 << (i % 7 == 6 ? "\n" : " ");
    }
  }

  LanguageConfig config(const std::string& model = kTransformerXl, const std::string& more = "",
                        const std::string& sizes = kAttention) const {
    return parse_config<LanguageConfig>(
        "experiment = \"language\"\nprecision = \"float64\"\n[data]\npath = \"" +
            folder_.path().string() + "\"\neval_streams = 2\neval_segment = 9\n" + "[model]\n" +
            model + "d_embed = 12\ninit_std = 0.2\n" + sizes + more,
        "test");
  }

  LanguageConfig qrnn_config(const std::string& more = "") const {
    return config("name = \"awd-qrnn\"\nlayers = 2\nd_hidden = 14\n" + more, "", "");
  }

  LanguageConfig looped_config() const {
    return config("name = \"looped\"\nprelude = 1\ncore = 2\ncoda = 1\nexits = [1e-9, 0.05, 1e9]\n",
                  "[gradient]\nname = \"unrolled\"\nsteps = 6\nbackpropagated = 2\nspread = 0.5\n");
  }

  LanguageConfig relational_config() const {
    return config(
        "name = \"relational-memory\"\nd_model = 10\nslots = 2\nheads = 2\nhead_size = 6\n"
        "mlp_layers = 2\n",
        "", "");
  }

  static double loss(LanguageConfig how, int64_t segment, int64_t memory) {
    how.data.eval_segment = segment;
    how.data.eval_memory = memory;
    LanguageTask task(how);
    task.model().eval();
    const torch::NoGradGuard no_grad;
    return number(task.evaluate(evaluation_options(how), *World::alone()), "loss");
  }

  test::TemporaryFolder folder_;
};

// What is before a word is what counts, not how the text was cut on the way.
TEST_F(Language, WithAFullMemoryAnEvaluationDoesNotDependOnTheSegments) {
  for (const auto& how : {config(), qrnn_config(), relational_config()}) {
    const double whole = loss(how, 1000, 0);
    for (const int64_t segment : {1, 5, 17}) {
      EXPECT_NEAR(loss(how, segment, 1000), whole, 1e-9) << "segments of " << segment;
      EXPECT_GT(std::abs(loss(how, segment, 0) - whole), 1e-6) << "segments of " << segment;
    }
  }
}

// With a state, a memory of one word is one of all words.
TEST_F(Language, ARecurrentNetworkKeepsItsStateUnlessItIsToForgetAll) {
  for (const auto& how : {qrnn_config(), relational_config()}) {
    EXPECT_EQ(loss(how, 5, 1), loss(how, 5, 1000));
    EXPECT_NE(loss(how, 5, 1), loss(how, 5, 0));
  }
}

TEST_F(Language, APenaltyCountsInTrainingOnly) {
  const std::string no_dropout =
      "input_dropout = 0.0\nhidden_dropout = 0.0\noutput_dropout = 0.0\n";
  LanguageTask plain(qrnn_config(no_dropout)),
      penalised(qrnn_config(no_dropout + "activation_penalty = 2.0\nslowness_penalty = 3.0\n"));
  const auto how = evaluation_options(qrnn_config());
  const auto loss_of = [&](LanguageTask& task) {
    const auto batches = task.training_batches({.batch_size = 3}, OnUnreadable::Fail);
    return task.forward(batches->batch(0, 0), how).loss.item<double>();
  };
  EXPECT_GT(loss_of(penalised), loss_of(plain) + 1e-3);
  for (auto* const task : {&plain, &penalised}) task->model().eval();
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(number(penalised.evaluate(how, *World::alone()), "loss"),
            number(plain.evaluate(how, *World::alone()), "loss"));
}

TEST_F(Language, TellsItsWordsAndHowManyItPredicts) {
  const LanguageTask task(config());
  const auto words = task.classes();
  EXPECT_EQ(words.front(), "<eos>");
  EXPECT_EQ(words.size(), 6 + 2);  // i² + 3i takes six values mod 11; <eos> and <unk>
  // 90 words and 13 ends of lines, in two streams of 51, whose first words nothing predicts.
  EXPECT_EQ(task.validation_samples(), 2 * 50);
}

TEST_F(Language, ALoopIsEvaluatedAtEveryDepthAndWithWordsThatLeaveIt) {
  const auto how = looped_config();
  LanguageTask task(how);
  task.model().eval();
  const torch::NoGradGuard no_grad;
  const auto evaluated = [&](int64_t loops) {
    return task.evaluate(within_budget(evaluation_options(how), loops), *World::alone());
  };
  const auto own = task.evaluate(evaluation_options(how), *World::alone());
  EXPECT_EQ(number(own, "perplexity"), number(evaluated(6), "perplexity"));
  EXPECT_NE(number(own, "perplexity"), number(evaluated(5), "perplexity"));
  EXPECT_LT(number(evaluated(20), "residual"), number(evaluated(2), "residual"));
  // Words that never settle take all loops, words that always do take one.
  EXPECT_NEAR(number(own, "exit_perplexity@1e-09"), number(own, "perplexity"), 1e-9);
  EXPECT_EQ(number(own, "exit_loops@1e-09"), 6);
  EXPECT_NEAR(number(own, "exit_perplexity@1e+09"), number(evaluated(1), "perplexity"), 1e-9);
  EXPECT_EQ(number(own, "exit_loops@1e+09"), 1);
  const auto deep = evaluated(20);
  EXPECT_GT(number(deep, "exit_loops@0.05"), 1);
  EXPECT_LT(number(deep, "exit_loops@0.05"), 20);
}

// Models that are compared are to be of one size.
TEST(LanguageSizes, OfTheBooksModelsAreAboutTheSame) {
  const auto size = [](const std::string& file, int64_t words) {
    const auto config = load_config<LanguageConfig>(kSource / "configs" / file);
    int64_t sum = 0;
    const auto network = make_language_network(config.model, words, deq::random_stream(0, 0));
    for (const auto& parameter : network->module().parameters()) sum += parameter.numel();
    return static_cast<double>(sum);
  };
  constexpr int64_t kBooks = 53'946, kSmall = 10'000;
  const double equilibrium = size("gpu/books-recipe.toml", kBooks);
  for (const std::string rival :
       {"looped", "transformer-xl", "awd-qrnn", "relational-memory", "gpt2"}) {
    EXPECT_NEAR(size("gpu/books-" + rival + ".toml", kBooks) / equilibrium, 1, 0.05) << rival;
  }
  for (const std::string rival : {"awd-qrnn", "relational-memory", "gpt2"}) {
    EXPECT_EQ(size("books/" + rival + ".toml", kBooks),
              size("gpu/books-" + rival + ".toml", kBooks));
  }
  const double small = size("small/books-deq.toml", kSmall);
  for (const std::string rival : {"looped", "awd-qrnn", "relational-memory", "gpt2"}) {
    EXPECT_NEAR(size("small/books-" + rival + ".toml", kSmall) / small, 1, 0.02) << rival;
  }
}

TextMemory numbered(const Shard& shard, int64_t part) {
  return {torch::arange(shard.first_position(part), shard.first_position(part) + shard.slice_size(),
                        torch::kFloat64)
              .view({-1, 1, 1})
              .expand({-1, 3, 2})};
}

TEST(StreamMemory, GoesOnWithOtherParts) {
  const Shard one{.batch_size = 12}, parts{.batch_size = 12, .parts = 3};
  StreamMemory memory(one, 5);
  EXPECT_TRUE(memory.next().empty());
  memory.remember(numbered(one, 0), torch::zeros({}));
  const auto gathered = memory.gather(*World::alone());
  StreamMemory shared(parts, 15);
  shared.restore(1, gathered, torch::kCPU);
  for (int64_t part = 0; part < 3; ++part) {
    const auto expected = numbered(parts, part);
    EXPECT_TRUE(shared.next().at(0).equal(expected[0])) << part;
    shared.remember(numbered(parts, part), torch::zeros({}));
  }
  EXPECT_TRUE(shared.gather(*World::alone()).at("memory.0").equal(gathered.at("memory.0")));
}

TEST(StreamMemory, ForgetsAtTheEndOfAnEpochAndAfterALossThatIsNotFinite) {
  const Shard shard{.batch_size = 2};
  StreamMemory memory(shard, 3);
  for (int batch = 0; batch < 7; ++batch) {
    EXPECT_EQ(memory.next().empty(), batch % 3 == 0) << batch;
    memory.remember(numbered(shard, 0), torch::zeros({}));
  }
  EXPECT_FALSE(memory.next().empty());
  memory.remember(numbered(shard, 0), torch::full({}, NAN));
  EXPECT_TRUE(memory.next().empty());
}

TEST(StreamMemory, RefusesThatOfAnotherNumberOfStreams) {
  StreamMemory memory({.batch_size = 4}, 3);
  EXPECT_THROW(memory.restore(1, {{"memory.0", torch::zeros({6, 1, 1})}}, torch::kCPU), Error);
}

}  // namespace
}  // namespace deq::lab

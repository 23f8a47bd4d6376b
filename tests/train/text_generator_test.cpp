#include "deq/lab/trained/text_generator.h"
#include "deq/lab/settings/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/rng.h"
#include "deq/core/error.h"
#include "deq/lab/data/text/vocabulary.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/run_folder.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/settings/files.h"
#include "deq/lab/settings/language.h"
#include "deq/lab/tasks/experiment.h"
#include "io/temporary_folder.h"
#include "lab/networks/language_network.h"
#include "lab/runs/model_state.h"

namespace deq::lab {
namespace {

const std::vector<std::string> kWords{"<eos>", "<unk>", "a", "b", "c", "d", "e"};

/// A run whose model has random weights, and the same model apart from it.
class TextGeneratorTest : public ::testing::Test {
 protected:
  explicit TextGeneratorTest(
      const std::string& model = "name = \"deq-transformer\"\nweight_norm = false\n",
      const std::string& sizes = "d_model = 12\nheads = 2\nd_head = 6\nd_inner = 16\n")
      : config_(parse_config<LanguageConfig>(
            "experiment = \"language\"\nprecision = \"float64\"\n[data]\npath = "
            "\"none\"\neval_segment = 3\neval_memory = 50\n[model]\n" +
                model + sizes +
                "d_embed = 12\ninit_std = 0.2\n[solver.forward]\nname = \"broyden\"\n"
                "max_evals = 200\nmemory = 200\nrtol = 1e-12\n",
            "test")),
        network_(make_language_network(config_.model, static_cast<int64_t>(kWords.size()),
                                       random_stream(7, 0))) {
    network_->module().to(torch::kFloat64);
    network_->module().eval();
    create_run_folder(run());
    write_file_atomically(config_file(run()), to_toml(config_));
    Checkpoints(checkpoint_folder(run()), 1)
        .save(0, {.tensors = model_tensors(network_->module()),
                  .metadata = checkpoint_metadata(to_toml(config_), kWords)});
  }

  std::filesystem::path run() const { return folder_ / "run"; }

  /// log p of every word after each of these, read at once.
  torch::Tensor log_probabilities(const std::vector<int64_t>& text) {
    const torch::NoGradGuard no_grad;
    const auto reading =
        network_->read(torch::tensor(text).unsqueeze(0), {}, 0, evaluation_options(config_), {});
    return network_->log_probabilities(reading.hidden)[0];
  }

  void expect_teacher_forcing() {
    TextGenerator generator(run(), {.seed = 3});
    EXPECT_EQ(generator.read("a b zebra\nc"), std::vector<std::string>{"zebra"});
    std::vector<WordCount> counts;
    for (const auto& word : kWords) counts.push_back({.word = word});
    const Vocabulary vocabulary(counts);
    std::vector<int64_t> text{0};
    for (const auto number : vocabulary.encode("a b zebra\nc")) text.push_back(number);
    std::vector<double> probabilities;
    for (int k = 0; k < 12; ++k) {
      const auto word = generator.next();
      text.push_back(vocabulary.number(word.word));
      probabilities.push_back(word.probability);
    }
    const auto expected = log_probabilities(text).exp();
    const auto first = text.size() - probabilities.size();
    for (size_t k = 0; k < probabilities.size(); ++k) {
      const auto position = static_cast<int64_t>(first + k);
      EXPECT_NEAR(probabilities[k], expected[position - 1][text[first + k]].item<double>(), 1e-8)
          << k;
    }
  }

  test::TemporaryFolder folder_;
  LanguageConfig config_;
  std::unique_ptr<LanguageNetwork> network_;
};

class XlGeneratorTest : public TextGeneratorTest {
 protected:
  XlGeneratorTest() : TextGeneratorTest("name = \"transformer-xl\"\nlayers = 2\n") {}
};

class LoopedGeneratorTest : public TextGeneratorTest {
 protected:
  LoopedGeneratorTest()
      : TextGeneratorTest("name = \"looped\"\nprelude = 1\ncore = 2\ncoda = 1\n") {}
};

class QrnnGeneratorTest : public TextGeneratorTest {
 protected:
  QrnnGeneratorTest() : TextGeneratorTest("name = \"awd-qrnn\"\nlayers = 2\nd_hidden = 14\n", "") {}
};

TEST_F(QrnnGeneratorTest, GenerationIsTeacherForcing) {
  expect_teacher_forcing();
}

// At the loop's equilibrium, which these solves find: what it remembers is then what it would read.
TEST_F(LoopedGeneratorTest, GenerationIsTeacherForcing) {
  expect_teacher_forcing();
}

TEST_F(TextGeneratorTest, GenerationIsTeacherForcing) {
  expect_teacher_forcing();
}

TEST_F(XlGeneratorTest, GenerationIsTeacherForcing) {
  expect_teacher_forcing();
}

TEST_F(TextGeneratorTest, ANewTextForgetsTheOneBefore) {
  TextGenerator generator(run(), {.top = 1});
  const auto continued = [&](std::string_view prompt) {
    generator.read(prompt);
    std::vector<double> probabilities;
    for (int k = 0; k < 4; ++k) probabilities.push_back(generator.next().probability);
    return probabilities;
  };
  const auto once = continued("a c");
  EXPECT_NE(continued("d d d e"), once);
  EXPECT_EQ(continued("a c"), once);
}

TEST_F(TextGeneratorTest, BlanksAreThoseOfTheTrainingText) {
  TextGenerator generator(run(), {});
  EXPECT_EQ(generator.read("a\u3000odd\u00a0one b"), (std::vector<std::string>{"odd", "one"}));
  EXPECT_TRUE(generator.read("a\u2003b\u2028c\r\nd").empty());
  EXPECT_THROW(generator.read("a \xff b"), Error);
}

TEST_F(TextGeneratorTest, TheUnknownWordIsNeverDrawn) {
  TextGenerator generator(run(), {.temperature = 5});
  for (int k = 0; k < 60; ++k) EXPECT_NE(generator.next().word, kUnknownWord);
}

}  // namespace
}  // namespace deq::lab

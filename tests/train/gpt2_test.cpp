#include <gtest/gtest.h>

#include <fstream>

#include "config/source_folder.h"
#include "core/rng.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/text/vocabulary.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/run_folder.h"
#include "deq/lab/runs/checkpoints.h"
#include "deq/lab/settings/evaluation.h"
#include "deq/lab/settings/files.h"
#include "deq/lab/tasks/experiment.h"
#include "deq/lab/tasks/language.h"
#include "deq/lab/trained/text_generator.h"
#include "io/temporary_folder.h"
#include "lab/networks/language_network.h"
#include "lab/runs/model_state.h"
#include "lab/tasks/stream_memory.h"

// GPT-2 as one of the networks that predict words: what it remembers is words.

namespace deq::lab {
namespace {

const std::vector<std::string> kLetters{"<eos>", "<unk>", "a", "b", "c", "d", "e"};

class Gpt2Language : public ::testing::Test {
 protected:
  Gpt2Language() {
    for (const char* split : {"train", "valid"}) {
      std::ofstream file(folder_ / (std::string(split) + ".txt"));
      for (int i = 0; i < 90; ++i) file << "w" << (i * i + 3 * i) % 11 << (i % 7 == 6 ? "\n" : " ");
    }
  }

  LanguageConfig config(const std::string& data = "") const {
    return parse_config<LanguageConfig>(
        "experiment = \"language\"\nprecision = \"float64\"\n[data]\npath = \"" +
            folder_.path().string() +
            "\"\neval_streams = 2\nsegment = 9\nmemory = 0\neval_segment = 9\neval_memory = 0\n" +
            data +
            "[model]\nname = \"gpt2\"\nlayers = 2\npositions = 16\nd_model = 12\nd_embed = 12\n"
            "heads = 2\nd_inner = 16\ninit_std = 0.2\n",
        "test");
  }

  std::string refusal(const LanguageConfig& config) const {
    try {
      LanguageTask task(config);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing";
  }

  test::TemporaryFolder folder_;
};

TEST_F(Gpt2Language, RefusesSegmentsThatItCannotReadAtOnce) {
  auto how = config();
  how.data.memory = 7;
  EXPECT_EQ(refusal(how), "nothing");
  how.data.memory = 8;
  EXPECT_EQ(refusal(how),
            "data.segment = 9 and data.memory = 8 are 17 words together, must be at most "
            "model.positions = 16");
  how = config();
  how.data.eval_segment = 17;
  EXPECT_EQ(refusal(how),
            "data.eval_segment = 17 and data.eval_memory = 0 are 17 words together, must be at "
            "most model.positions = 16");
}

/// The loss of the validation text, each segment read after at most `memory` words of its stream.
double plain_loss(LanguageTask& task, const torch::Tensor& streams, int64_t segment, int64_t memory,
                  LanguageNetwork& network) {
  const auto words = streams.size(1) - 1;
  double sum = 0;
  for (int64_t begin = 0; begin < words; begin += segment) {
    const auto end = std::min(begin + segment, words), first = std::max<int64_t>(begin - memory, 0);
    const auto cost =
        network.forward(streams.slice(1, first, end), streams.slice(1, first + 1, end + 1), {}, 0,
                        evaluation_options({}));
    sum += cost.nll.slice(1, begin - first).sum().item<double>();
  }
  return sum / static_cast<double>(task.validation_samples());
}

TEST_F(Gpt2Language, AnEvaluationReadsWindows) {
  for (const auto& [segment, memory] : {std::pair{5, 11}, std::pair{9, 7}, std::pair{9, 0}}) {
    auto how = config();
    how.data.eval_segment = segment;
    how.data.eval_memory = memory;
    LanguageTask task(how);
    task.model().eval();
    const torch::NoGradGuard no_grad;
    const auto network = make_language_network(
        how.model, static_cast<int64_t>(task.classes().size()), deq::random_stream(0, 0));
    network->module().to(torch::kFloat64);
    network->module().eval();
    restore_tensors(model_tensors(network->module()), model_tensors(task.model()), "the task");
    const Corpus corpus(folder_.path(), {});
    const auto tokens = corpus.tokens(CorpusSplit::Valid).to(torch::kInt64);
    const auto streams = tokens.narrow(0, 0, tokens.numel() / 2 * 2).view({2, -1});
    EXPECT_NEAR(number(task.evaluate(evaluation_options(how), *World::alone()), "loss"),
                plain_loss(task, streams, segment, memory, *network), 1e-12)
        << segment << " after " << memory;
  }
}

TEST(Gpt2Memory, WordsAreCarriedAsTheyAre) {
  const Shard one{.batch_size = 6}, parts{.batch_size = 6, .parts = 2};
  const auto words = torch::arange(24, torch::kInt64).view({6, 4}) + (int64_t{1} << 40);
  StreamMemory memory(one, 5);
  memory.next();
  memory.remember({words}, torch::zeros({}));
  const auto gathered = memory.gather(*World::alone());
  EXPECT_EQ(gathered.at("memory.0").scalar_type(), torch::kInt64);
  StreamMemory shared(parts, 10);
  shared.restore(1, gathered, torch::kCPU);
  for (int64_t part = 0; part < 2; ++part) {
    EXPECT_TRUE(shared.next().at(0).equal(words.narrow(0, 3 * part, 3))) << part;
    shared.remember({words.narrow(0, 3 * part, 3)}, torch::zeros({}));
  }
  EXPECT_TRUE(shared.gather(*World::alone()).at("memory.0").equal(words));
}

// Every word is drawn from what the network says after the last eval_memory words and itself.
TEST_F(Gpt2Language, GenerationReadsItsWindow) {
  const auto how = config("max_words = 7\n");
  auto generating = how;
  generating.data.eval_segment = 3;
  generating.data.eval_memory = 4;
  const auto words = static_cast<int64_t>(kLetters.size());
  const auto network = make_language_network(how.model, words, deq::random_stream(7, 0));
  network->module().to(torch::kFloat64);
  network->module().eval();
  const auto run = folder_ / "run";
  create_run_folder(run);
  write_file_atomically(config_file(run), to_toml(generating));
  Checkpoints(checkpoint_folder(run), 1)
      .save(0, {.tensors = model_tensors(network->module()),
                .metadata = checkpoint_metadata(to_toml(generating), kLetters)});
  TextGenerator generator(run, {.seed = 3});
  generator.read("a b c d e");
  std::vector<int64_t> text{0, 2, 3, 4, 5, 6};
  const torch::NoGradGuard no_grad;
  for (int k = 0; k < 12; ++k) {
    const auto drawn = generator.next();
    // The end of the prompt was read as one segment of three words.
    const auto seen = k == 0 ? text.size() : std::min<size_t>(text.size(), 5);
    const std::vector<int64_t> window(text.end() - static_cast<int64_t>(seen), text.end());
    const auto reading =
        network->read(torch::tensor(window).unsqueeze(0), {}, 0, evaluation_options(how), {});
    const auto log_p = network->log_probabilities(reading.hidden)[0][-1];
    const auto found = std::ranges::find(kLetters, drawn.word) - kLetters.begin();
    EXPECT_NEAR(drawn.probability, log_p[found].exp().item<double>(), 1e-12) << k;
    text.push_back(found);
  }
}

TEST(Gpt2Sizes, ThePapersConfigurationsAreThePresets) {
  for (const std::string name : {"355m", "8.3b"}) {
    const auto config =
        load_config<LanguageConfig>(kSource / ("configs/paper/wikitext103-gpt2-" + name + ".toml"));
    const auto& model = std::get<Gpt2Model>(config.model);
    const auto preset = models::gpt2_preset(name);
    EXPECT_EQ(model.layers, preset.layers);
    EXPECT_EQ(model.d_model, preset.d_model);
    EXPECT_EQ(model.d_embed, preset.d_embed);
    EXPECT_EQ(model.heads, preset.heads);
    EXPECT_EQ(model.d_inner, preset.d_inner);
    EXPECT_EQ(model.positions, preset.positions);
    EXPECT_EQ(model.dropout, preset.dropout);
    EXPECT_EQ(model.attention_dropout, preset.attention_dropout);
    EXPECT_NO_THROW(require_readable_segments(config));
  }
}

}  // namespace
}  // namespace deq::lab

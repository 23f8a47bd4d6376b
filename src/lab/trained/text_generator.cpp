#include "deq/lab/trained/text_generator.h"

#include <cmath>
#include <utility>

#include "core/require.h"
#include "core/rng.h"
#include "deq/core/precision.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/text/vocabulary.h"
#include "deq/lab/settings/evaluation.h"
#include "deq/lab/settings/language.h"
#include "lab/data/text/word_reader.h"
#include "lab/networks/language_network.h"
#include "lab/runs/model_state.h"
#include "lab/trained/run_config.h"

namespace deq::lab {
namespace {

Vocabulary vocabulary_of(const RunCheckpoint& checkpoint) {
  require(!checkpoint.classes.empty(), "{} does not say its words", checkpoint.path.string());
  std::vector<WordCount> words;
  for (const auto& word : checkpoint.classes) words.push_back({.word = word});
  return Vocabulary(words);
}

void validate_sampling(const SamplingOptions& sampling) {
  require<UsageError>(std::isfinite(sampling.temperature) && sampling.temperature > 0,
                      "temperature is {:g}; allowed: a finite number above 0",
                      sampling.temperature);
  require<UsageError>(sampling.top >= 0, "top is {}; allowed: 0 or more", sampling.top);
}

}  // namespace

struct TextGenerator::Parts {
  Parts(const LanguageConfig& language, const SamplingOptions& how_to_sample, torch::Device where,
        RunCheckpoint checkpoint)
      : config(language),
        sampling(how_to_sample),
        device(where),
        how(evaluation_options(config)),
        vocabulary(vocabulary_of(checkpoint)),
        network(make_language_network(config.model, vocabulary.size(), deq::random_stream(0, 0))),
        generator(deq::random_stream(sampling.seed, 0)),
        warnings(std::move(checkpoint.warnings)) {
    move_model(network->module(), device, storage_type(config.precision));
    restore_tensors(model_tensors(network->module()), checkpoint.weights, checkpoint.path.string());
    network->module().eval();
  }

  /// Reads words [T] after what is remembered.
  TextReading reading(const torch::Tensor& words, const torch::Tensor& start) {
    const torch::NoGradGuard no_grad;
    const PrecisionScope precision(config.precision, device);
    return network->read(words.unsqueeze(0).to(device), before, config.data.eval_memory, how,
                         start);
  }

  void take(TextReading reading) {
    last = reading.hidden.slice(1, -1);
    equilibrium = reading.equilibria.empty() ? torch::Tensor()
                                             : reading.equilibria.front().z().slice(1, -1).detach();
    after = std::move(reading.memory);
  }

  /// Log-probabilities [words] of the next word.
  torch::Tensor predictions() {
    const torch::NoGradGuard no_grad;
    const PrecisionScope precision(config.precision, device);
    auto logs = network->log_probabilities(last).flatten().to(torch::kCPU, torch::kFloat64);
    logs[vocabulary.unknown()] = -INFINITY;  // "unknown" is no continuation
    return logs;
  }

  int64_t draw(const torch::Tensor& logs) {
    auto scores = logs / sampling.temperature;
    if (sampling.top > 0 && sampling.top < scores.numel()) {
      const auto least = std::get<0>(scores.topk(sampling.top))[-1];
      scores = scores.masked_fill(scores < least, -INFINITY);
    }
    return scores.softmax(0).multinomial(1, /*replacement=*/false, generator).item<int64_t>();
  }

  LanguageConfig config;
  SamplingOptions sampling;
  torch::Device device;
  EquilibriumPlan how;
  Vocabulary vocabulary;
  std::unique_ptr<LanguageNetwork> network;
  at::Generator generator;
  std::vector<std::string> warnings;

  TextMemory before, after;     // the last word was read, and with it
  torch::Tensor last;           // hidden [1, 1, features] of the last word
  torch::Tensor equilibrium;    // and its equilibrium
  std::optional<int64_t> word;  // the last one that was drawn
};

TextGenerator::TextGenerator(const std::filesystem::path& run, const SamplingOptions& sampling,
                             torch::Device device, WhichCheckpoint which,
                             const std::vector<std::string>& overrides) {
  validate_sampling(sampling);
  const auto config = run_config_of<LanguageConfig>(run, overrides, "language", "generates text");
  require_readable_segments(config);
  parts_ = std::make_unique<Parts>(config, sampling, device, read_run_checkpoint(run, which));
  read("");
}

TextGenerator::~TextGenerator() = default;

const std::vector<std::string>& TextGenerator::warnings() const {
  return parts_->warnings;
}

std::vector<std::string> TextGenerator::read(std::string_view prompt) {
  auto& parts = *parts_;
  // A text begins where a line has ended.
  std::vector<int64_t> numbers{parts.vocabulary.end_of_line()};
  std::vector<std::string> unknown;
  for (const auto number : parts.vocabulary.encode(prompt)) numbers.push_back(number);
  // encode() has looked at every character.
  read_words(
      prompt,
      [&](std::string_view word) {
        if (!parts.vocabulary.contains(word)) unknown.emplace_back(word);
      },
      [] {});
  parts.after.clear();
  parts.word.reset();
  const auto words = torch::tensor(numbers);
  for (const auto& segment : words.split(parts.config.data.eval_segment)) {
    parts.before = parts.after;
    parts.take(parts.reading(segment, {}));
  }
  return unknown;
}

GeneratedWord TextGenerator::next() {
  auto& parts = *parts_;
  const auto logs = parts.predictions();
  parts.word = parts.draw(logs);
  parts.before = parts.after;
  auto reading = parts.reading(torch::tensor({*parts.word}), parts.equilibrium);
  GeneratedWord result{.word = parts.vocabulary.word(*parts.word),
                       .probability = logs[*parts.word].exp().item<double>()};
  if (!reading.equilibria.empty()) {
    result.evaluations = reading.equilibria.front().report.evaluations;
  }
  parts.take(std::move(reading));
  return result;
}

std::optional<int64_t> TextGenerator::evaluations_from_zero() {
  if (!parts_->word || !parts_->equilibrium.defined()) return std::nullopt;
  const auto reading = parts_->reading(torch::tensor({*parts_->word}), {});
  return reading.equilibria.front().report.evaluations;
}

}  // namespace deq::lab

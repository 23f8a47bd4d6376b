#include "deq/lab/tasks/language.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "core/require.h"
#include "deq/core/interruption.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/text/corpus.h"
#include "deq/lab/data/text/segment_batches.h"
#include "lab/base/misuse.h"
#include "lab/base/random_streams.h"
#include "lab/networks/language_network.h"
#include "lab/runs/model_state.h"
#include "lab/tasks/make_experiment.h"
#include "lab/tasks/stability.h"
#include "lab/tasks/stream_memory.h"
#include "lab/train/model_parts.h"
#include "lab/train/rank_sum.h"

namespace deq::lab {
namespace {

/// Sums over the words of a text, in a row so that one reduction serves them all.
struct WordTally {
  enum Name { kWords, kLoss, kEvaluations, kLoops, kSegments, kCount };
  std::array<double, kCount> sums{};
  std::vector<Report> reports;

  void add(const TextCost& cost) {
    sums[kWords] += static_cast<double>(cost.nll.numel());
    sums[kLoss] += cost.nll.to(torch::kFloat64).sum().item<double>();
    ++sums[kSegments];
    if (cost.loops.defined()) sums[kLoops] += static_cast<double>(cost.loops.sum().item<int64_t>());
    for (const auto& equilibrium : cost.equilibria) {
      sums[kEvaluations] += static_cast<double>(equilibrium.report.evaluations);
      reports.push_back(equilibrium.report);
    }
  }

  double per_word(Name name) const { return sums[name] / sums[kWords]; }
};

Corpus open_corpus(const TextData& data, std::vector<std::string>& warnings) {
  return Corpus(
      data.path,
      {.vocabulary = {.max_words = data.max_words.value_or(0), .min_count = data.min_count},
       .warn = [&warnings](const std::string& line) { warnings.push_back(line); }});
}

/// A stream of one word has nothing to predict. `words` says which they are.
void require_streams(std::string_view key, int64_t streams, const torch::Tensor& tokens,
                     const std::string& words) {
  require<UsageError>(tokens.numel() >= 2 * streams,
                      "{} = {}, must be at most half of the {} words of {}", key, streams,
                      tokens.numel(), words);
}

torch::Tensor evaluated_tokens(const Corpus& corpus, const TextData& data) {
  const auto tokens = corpus.tokens(data.eval_split);
  const auto read = std::min(tokens.numel(), data.eval_words.value_or(tokens.numel()));
  const bool shortened = read < tokens.numel();
  auto evaluated = tokens.narrow(0, 0, read);
  require_streams("data.eval_streams", data.eval_streams, evaluated,
                  fmt::format("the {} text{}", name_of(data.eval_split),
                              shortened ? fmt::format(" (data.eval_words = {})", read) : ""));
  return evaluated;
}

}  // namespace

struct LanguageTask::Parts {
  LanguageConfig config;
  torch::Device device;
  Corpus corpus;
  std::vector<std::string> warnings;  // of opening it
  torch::Tensor evaluated;            // the words that evaluations read
  std::unique_ptr<LanguageNetwork> network;
  std::unique_ptr<StreamMemory> memory;  // of the training; none before there are batches
  std::unique_ptr<ModelParts> in_parts;

  SegmentBatches evaluation(const Shard& shard) const {
    return {evaluated, config.data.eval_segment, shard};
  }

  Batch on_device(const Batch& batch) const {
    return batch.to(device, storage_type(config.precision));
  }

  TextCost cost(const Batch& batch, const TextMemory& before, const EquilibriumPlan& how) {
    return network->forward(batch.tensors[0], batch.tensors[1], before, config.data.eval_memory,
                            how);
  }

  TextCost cost_with_exits(const Batch& batch, const TextMemory& before, const EquilibriumPlan& how,
                           double rtol) {
    return network->forward_with_exits(batch.tensors[0], batch.tensors[1], before,
                                       config.data.eval_memory, how, rtol);
  }

  using Reader = std::function<TextCost(const Batch&, const TextMemory&)>;
  /// Of the whole validation text, segment after segment.
  WordTally read(World& world, const Reader& reader) const {
    const int64_t streams = config.data.eval_streams;
    // The result is not to depend on the number of ranks: streams that cannot be shared equally are
    // all read by the first.
    const bool shared = streams % world.size() == 0;
    WordTally tally;
    if (shared || world.is_main()) {
      const auto source = evaluation({.batch_size = streams,
                                      .rank = shared ? world.rank() : 0,
                                      .ranks = shared ? world.size() : 1});
      TextMemory before;
      for (int64_t index = 0; index < source.batches(); ++index) {
        check_interruption();  // an explicit network has no solve that would
        auto read_segment = reader(on_device(source.batch(0, index)), before);
        tally.add(read_segment);
        before = std::move(read_segment.memory);
      }
    }
    sum_over_ranks(tally.sums, world, device);
    return tally;
  }
};

LanguageTask::LanguageTask(const LanguageConfig& config, torch::Device device,
                           std::shared_ptr<models::TensorParallel> group) {
  require_readable_segments(config);
  std::vector<std::string> warnings;
  auto corpus = open_corpus(config.data, warnings);
  auto evaluated = evaluated_tokens(corpus, config.data);
  const auto generator = random_stream(config.seed, RandomStream::LanguageWeights);
  auto network = make_language_network(config.model, corpus.vocabulary().size(), generator, group);
  parts_ = std::make_unique<Parts>(Parts{.config = config,
                                         .device = device,
                                         .corpus = std::move(corpus),
                                         .warnings = std::move(warnings),
                                         .evaluated = std::move(evaluated),
                                         .network = std::move(network),
                                         .memory = nullptr,
                                         .in_parts = nullptr});
  if (group) parts_->in_parts = std::make_unique<ModelParts>(std::move(group));
  move_model(model(), device, storage_type(config.precision));
}

LanguageTask::~LanguageTask() = default;

torch::nn::Module& LanguageTask::model() {
  return parts_->network->module();
}

const ModelParts* LanguageTask::in_parts() const {
  return parts_->in_parts.get();
}

std::shared_ptr<const BatchSource> LanguageTask::training_batches(const Shard& shard,
                                                                  OnUnreadable) {
  const auto tokens = parts_->corpus.tokens(CorpusSplit::Train);
  require_streams("train.batch_size", shard.batch_size, tokens, "the train text");
  auto source = std::make_shared<SegmentBatches>(tokens, parts_->config.data.segment, shard);
  parts_->memory = std::make_unique<StreamMemory>(shard, source->batches());
  return source;
}

TaskPass LanguageTask::forward(const Batch& batch, const EquilibriumPlan& how) {
  auto cost = parts_->network->forward(batch.tensors[0], batch.tensors[1], parts_->memory->next(),
                                       parts_->config.data.memory, how);
  auto loss = cost.loss();
  parts_->memory->remember(std::move(cost.memory), loss.detach());
  return {.loss = std::move(loss), .equilibria = std::move(cost.equilibria)};
}

std::map<std::string, torch::Tensor> LanguageTask::carried(World& world) {
  return parts_->memory->gather(world);
}

void LanguageTask::carry_on(int64_t step, const std::map<std::string, torch::Tensor>& carried) {
  parts_->memory->restore(step, carried, parts_->device);
}

Metrics LanguageTask::evaluate(const EquilibriumPlan& how, World& world) {
  auto& parts = *parts_;
  const auto tally = parts.read(world, [&](const Batch& batch, const TextMemory& before) {
    return parts.cost(batch, before, how);
  });
  const double loss = tally.per_word(WordTally::kLoss);
  Metrics metrics{{"loss", loss}, {"perplexity", std::exp(loss)}};
  if (tally.sums[WordTally::kEvaluations] > 0) {
    metrics.emplace_back("nfe_forward",
                         tally.sums[WordTally::kEvaluations] / tally.sums[WordTally::kSegments]);
  }
  append(metrics, residual_metrics(tally.reports));
  for (const double rtol : parts.network->exits()) {
    const auto left = parts.read(world, [&](const Batch& batch, const TextMemory& before) {
      return parts.cost_with_exits(batch, before, how, rtol);
    });
    append(metrics,
           {{fmt::format("exit_perplexity@{:g}", rtol), std::exp(left.per_word(WordTally::kLoss))},
            {fmt::format("exit_loops@{:g}", rtol), left.per_word(WordTally::kLoops)}});
  }
  return metrics;
}

Metrics LanguageTask::stability(const EquilibriumPlan& how) {
  // As many streams as leave each two whole segments: the second has a memory of the first.
  const auto& data = parts_->config.data;
  const auto words = parts_->evaluated.numel();
  const auto streams =
      std::clamp<int64_t>(words / (2 * data.eval_segment + 1), 1, kStabilitySamples);
  const auto source = parts_->evaluation({.batch_size = streams});
  return stability_metrics(model(), parts_->config.seed, 1, how.options().forward, [&](int64_t) {
    auto cost = parts_->cost(parts_->on_device(source.batch(0, 0)), {}, how);
    if (!cost.equilibria.empty() && source.batches() > 1) {
      cost = parts_->cost(parts_->on_device(source.batch(0, 1)), cost.memory, how);
    }
    return std::move(cost.equilibria);
  });
}

int64_t LanguageTask::validation_samples() const {
  return parts_->evaluation({.batch_size = parts_->config.data.eval_streams}).predictions();
}

std::string LanguageTask::evaluated_split() const {
  return parts_->config.data.eval_split == CorpusSplit::Test ? "test" : "valid";
}

std::vector<std::string> LanguageTask::warnings() const {
  return parts_->warnings;
}

std::vector<models::TiedName> LanguageTask::tied() const {
  return parts_->network->tied();
}

std::vector<std::string> LanguageTask::classes() const {
  const auto& vocabulary = parts_->corpus.vocabulary();
  std::vector<std::string> words;
  for (int64_t i = 0; i < vocabulary.size(); ++i) words.emplace_back(vocabulary.word(i));
  return words;
}

Experiment experiment_from(const LanguageConfig& config) {
  auto experiment = make_experiment<LanguageTask>("language", config);
  if (const auto* gpt2 = std::get_if<Gpt2Model>(&config.model)) {
    experiment.make_part = [config](torch::Device device,
                                    std::shared_ptr<models::TensorParallel> group) {
      return std::make_shared<LanguageTask>(config, device, std::move(group));
    };
    experiment.require_divisible = [model = *gpt2](int64_t parts) {
      refusals_as_misuse([&] { validate(model, parts); });
    };
  }
  return experiment;
}

}  // namespace deq::lab

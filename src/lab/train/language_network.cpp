#include "lab/train/language_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/text/vocabulary_cutoffs.h"
#include "deq/models/transformer/looped.h"
#include "deq/models/transformer/transformer.h"
#include "deq/models/transformer/transformer_xl.h"

namespace deq::lab {
namespace {

class DeqTransformerNetwork final : public LanguageNetwork {
 public:
  explicit DeqTransformerNetwork(models::DeqTransformer model) : model_(std::move(model)) {}
  torch::nn::Module& module() override { return *model_; }
  std::vector<models::TiedName> tied() const override { return model_->tied(); }

  TextCost forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                   const TextMemory& memory, int64_t capacity,
                   const EquilibriumPlan& plan) override {
    auto output = model_->forward(tokens, targets, remembered(memory, capacity), plan);
    return {.nll = std::move(output.nll),
            .memory = tensors(output.reading.memory),
            .equilibria = {std::move(output.reading.equilibrium)}};
  }

  TextReading read(const torch::Tensor& tokens, const TextMemory& memory, int64_t capacity,
                   const EquilibriumPlan& plan, const torch::Tensor& start) override {
    auto reading = model_->read(tokens, remembered(memory, capacity), plan, start);
    return {.hidden = std::move(reading.hidden),
            .memory = tensors(reading.memory),
            .equilibria = {std::move(reading.equilibrium)}};
  }

  torch::Tensor log_probabilities(const torch::Tensor& hidden) override {
    return model_->log_probabilities(hidden);
  }

 private:
  static models::TransformerMemory remembered(const TextMemory& memory, int64_t capacity) {
    if (memory.empty()) return {.capacity = capacity};
    return {.capacity = capacity, .z = memory.at(0), .u = memory.at(1)};
  }

  static TextMemory tensors(const models::TransformerMemory& memory) {
    if (memory.length() == 0) return {};
    return {memory.z, memory.u};
  }

  models::DeqTransformer model_;
};

class TransformerXlNetwork final : public LanguageNetwork {
 public:
  explicit TransformerXlNetwork(models::TransformerXL model) : model_(std::move(model)) {}
  torch::nn::Module& module() override { return *model_; }
  std::vector<models::TiedName> tied() const override { return model_->tied(); }

  TextCost forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                   const TextMemory& memory, int64_t capacity, const EquilibriumPlan&) override {
    auto output = model_->forward(tokens, targets, {.capacity = capacity, .layers = memory});
    return {.nll = std::move(output.nll),
            .memory = std::move(output.reading.memory.layers),
            .equilibria = {}};
  }

  TextReading read(const torch::Tensor& tokens, const TextMemory& memory, int64_t capacity,
                   const EquilibriumPlan&, const torch::Tensor&) override {
    auto reading = model_->read(tokens, {.capacity = capacity, .layers = memory});
    return {.hidden = std::move(reading.hidden),
            .memory = std::move(reading.memory.layers),
            .equilibria = {}};
  }

  torch::Tensor log_probabilities(const torch::Tensor& hidden) override {
    return model_->log_probabilities(hidden);
  }

 private:
  models::TransformerXL model_;
};

class LoopedNetwork final : public LanguageNetwork {
 public:
  LoopedNetwork(models::LoopedTransformer model, std::vector<double> exits)
      : model_(std::move(model)), exits_(std::move(exits)) {}
  torch::nn::Module& module() override { return *model_; }
  std::vector<models::TiedName> tied() const override { return model_->tied(); }
  const std::vector<double>& exits() const override { return exits_; }

  TextCost forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                   const TextMemory& memory, int64_t capacity,
                   const EquilibriumPlan& plan) override {
    auto output = model_->forward(tokens, targets, {.capacity = capacity, .layers = memory}, plan);
    return {.nll = std::move(output.nll),
            .memory = std::move(output.reading.memory.layers),
            .equilibria = {std::move(output.reading.equilibrium)}};
  }

  TextCost forward_with_exits(const torch::Tensor& tokens, const torch::Tensor& targets,
                              const TextMemory& memory, int64_t capacity,
                              const EquilibriumPlan& plan, double rtol) override {
    const auto& how = plan.options();
    const auto* unrolled = std::get_if<Unrolled>(&how.gradient);
    auto reading = model_->read_with_exits(
        tokens, {.capacity = capacity, .layers = memory},
        {.loops = unrolled != nullptr ? unrolled->steps : max_evals(how.forward), .rtol = rtol});
    return {.nll = model_->cost(reading.hidden, targets),
            .memory = std::move(reading.memory.layers),
            .equilibria = {},
            .loops = std::move(reading.loops)};
  }

  TextReading read(const torch::Tensor& tokens, const TextMemory& memory, int64_t capacity,
                   const EquilibriumPlan& plan, const torch::Tensor& start) override {
    auto reading = model_->read(tokens, {.capacity = capacity, .layers = memory}, plan, start);
    return {.hidden = std::move(reading.hidden),
            .memory = std::move(reading.memory.layers),
            .equilibria = {std::move(reading.equilibrium)}};
  }

  torch::Tensor log_probabilities(const torch::Tensor& hidden) override {
    return model_->log_probabilities(hidden);
  }

 private:
  models::LoopedTransformer model_;
  std::vector<double> exits_;
};

/// Cutoffs that were made for a larger text are the usual reason.
void require_fitting(const std::vector<int64_t>& cutoffs, int64_t words) {
  const auto above = std::ranges::find_if(cutoffs, [words](int64_t c) { return c >= words; });
  if (above == cutoffs.end()) return;
  throw UsageError(fmt::format(
      "model.cutoffs has {}, but the text has {} different words: every cutoff must be below that; "
      "model.cutoffs = [] chooses them for the text",
      *above, words));
}

template <class Options>
Options for_vocabulary(Options options, int64_t words) {
  options.vocabulary = words;
  require_fitting(options.cutoffs, words);
  if (options.cutoffs.empty()) options.cutoffs = choose_cutoffs(words);
  options.tie_projections.assign(options.cutoffs.size() + 1, true);
  options.tie_projections.front() = false;
  return options;
}

}  // namespace

TextCost LanguageNetwork::forward_with_exits(const torch::Tensor&, const torch::Tensor&,
                                             const TextMemory&, int64_t, const EquilibriumPlan&,
                                             double) {
  throw Error("this network has no loop that words could leave");
}

std::unique_ptr<LanguageNetwork> make_language_network(const LanguageModel& model, int64_t words,
                                                       at::Generator generator) {
  if (const auto* deq = std::get_if<DeqTransformerModel>(&model)) {
    return std::make_unique<DeqTransformerNetwork>(
        models::DeqTransformer(for_vocabulary<models::TransformerOptions>(*deq, words), generator));
  }
  if (const auto* looped = std::get_if<LoopedModel>(&model)) {
    return std::make_unique<LoopedNetwork>(
        models::LoopedTransformer(for_vocabulary<models::LoopedTransformerOptions>(*looped, words),
                                  generator),
        looped->exits);
  }
  return std::make_unique<TransformerXlNetwork>(models::TransformerXL(
      for_vocabulary<models::TransformerXlOptions>(std::get<TransformerXlModel>(model), words),
      generator));
}

}  // namespace deq::lab

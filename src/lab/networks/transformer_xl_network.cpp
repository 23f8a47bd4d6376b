#include "deq/models/transformer/transformer_xl.h"

#include <utility>

#include "lab/networks/for_vocabulary.h"
#include "lab/networks/networks.h"

namespace deq::lab {
namespace {

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

}  // namespace

std::unique_ptr<LanguageNetwork> make_network(const TransformerXlModel& model, int64_t words,
                                              const at::Generator& generator) {
  return std::make_unique<TransformerXlNetwork>(
      models::TransformerXL(for_vocabulary<models::TransformerXlOptions>(model, words), generator));
}

}  // namespace deq::lab

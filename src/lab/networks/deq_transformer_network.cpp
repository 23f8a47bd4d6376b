#include "deq/models/transformer/transformer.h"

#include <utility>

#include "lab/networks/for_vocabulary.h"
#include "lab/networks/networks.h"

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

}  // namespace

std::unique_ptr<LanguageNetwork> make_network(const DeqTransformerModel& model, int64_t words,
                                              const at::Generator& generator) {
  return std::make_unique<DeqTransformerNetwork>(
      models::DeqTransformer(for_vocabulary<models::TransformerOptions>(model, words), generator));
}

}  // namespace deq::lab

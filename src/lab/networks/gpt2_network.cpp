#include "deq/models/transformer/gpt2.h"

#include <utility>

#include "lab/networks/for_vocabulary.h"
#include "lab/networks/networks.h"

namespace deq::lab {
namespace {

class Gpt2Network final : public LanguageNetwork {
 public:
  explicit Gpt2Network(models::GPT2 model) : model_(std::move(model)) {}
  torch::nn::Module& module() override { return *model_; }
  std::vector<models::TiedName> tied() const override { return model_->tied(); }

  TextCost forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                   const TextMemory& memory, int64_t capacity, const EquilibriumPlan&) override {
    auto output = model_->forward(tokens, targets, remembered(memory, capacity));
    return {
        .nll = std::move(output.nll), .memory = tensors(output.reading.memory), .equilibria = {}};
  }

  TextReading read(const torch::Tensor& tokens, const TextMemory& memory, int64_t capacity,
                   const EquilibriumPlan&, const torch::Tensor&) override {
    auto reading = model_->read(tokens, remembered(memory, capacity));
    return {
        .hidden = std::move(reading.hidden), .memory = tensors(reading.memory), .equilibria = {}};
  }

  torch::Tensor log_probabilities(const torch::Tensor& hidden) override {
    return model_->log_probabilities(hidden);
  }

 private:
  static models::Gpt2Memory remembered(const TextMemory& memory, int64_t capacity) {
    if (memory.empty()) return {.capacity = capacity};
    return {.capacity = capacity, .tokens = memory.at(0)};
  }

  static TextMemory tensors(const models::Gpt2Memory& memory) {
    if (memory.length() == 0) return {};
    return {memory.tokens};
  }

  models::GPT2 model_;
};

}  // namespace

std::unique_ptr<LanguageNetwork> make_network(const Gpt2Model& model, int64_t words,
                                              const at::Generator& generator,
                                              std::shared_ptr<models::TensorParallel> group) {
  return std::make_unique<Gpt2Network>(
      models::GPT2(for_vocabulary<models::Gpt2Options>(model, words), generator, std::move(group)));
}

}  // namespace deq::lab

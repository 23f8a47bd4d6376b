#include "deq/models/recurrent/relational_memory.h"

#include <utility>

#include "lab/networks/for_vocabulary.h"
#include "lab/networks/networks.h"

namespace deq::lab {
namespace {

class RelationalMemoryNetwork final : public LanguageNetwork {
 public:
  explicit RelationalMemoryNetwork(models::RelationalMemory model) : model_(std::move(model)) {}
  torch::nn::Module& module() override { return *model_; }
  std::vector<models::TiedName> tied() const override { return model_->tied(); }

  TextCost forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                   const TextMemory& memory, int64_t capacity,
                   const EquilibriumPlan& plan) override {
    auto output =
        model_->forward(tokens, targets, remembered(memory, capacity), plan.options().replay);
    return {
        .nll = std::move(output.nll), .memory = kept(output.reading, capacity), .equilibria = {}};
  }

  TextReading read(const torch::Tensor& tokens, const TextMemory& memory, int64_t capacity,
                   const EquilibriumPlan& plan, const torch::Tensor&) override {
    auto reading = model_->read(tokens, remembered(memory, capacity), plan.options().replay);
    return {.hidden = reading.hidden, .memory = kept(reading, capacity), .equilibria = {}};
  }

  torch::Tensor log_probabilities(const torch::Tensor& hidden) override {
    return model_->log_probabilities(hidden);
  }

 private:
  static torch::Tensor remembered(const TextMemory& memory, int64_t capacity) {
    return memory.empty() || capacity == 0 ? torch::Tensor() : memory.at(0);
  }
  static TextMemory kept(const models::RelationalMemoryReading& reading, int64_t capacity) {
    return capacity == 0 ? TextMemory() : TextMemory{reading.memory};
  }

  models::RelationalMemory model_;
};

}  // namespace

std::unique_ptr<LanguageNetwork> make_network(const RelationalMemoryModel& model, int64_t words,
                                              const at::Generator& generator) {
  return std::make_unique<RelationalMemoryNetwork>(models::RelationalMemory(
      for_vocabulary<models::RelationalMemoryOptions>(model, words), generator));
}

}  // namespace deq::lab

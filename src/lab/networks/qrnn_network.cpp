#include "deq/models/recurrent/qrnn.h"

#include <utility>

#include "lab/networks/for_vocabulary.h"
#include "lab/networks/networks.h"

namespace deq::lab {
namespace {

class QrnnNetwork final : public LanguageNetwork {
 public:
  explicit QrnnNetwork(models::AwdQrnn model) : model_(std::move(model)) {}
  torch::nn::Module& module() override { return *model_; }
  std::vector<models::TiedName> tied() const override { return model_->tied(); }

  TextCost forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                   const TextMemory& memory, int64_t capacity, const EquilibriumPlan&) override {
    auto output = model_->forward(tokens, targets, remembered(memory));
    return {.nll = std::move(output.nll),
            .memory = kept(output.reading.memory, capacity),
            .equilibria = {},
            .penalty = std::move(output.penalty)};
  }

  TextReading read(const torch::Tensor& tokens, const TextMemory& memory, int64_t capacity,
                   const EquilibriumPlan&, const torch::Tensor&) override {
    auto reading = model_->read(tokens, remembered(memory));
    return {.hidden = std::move(reading.hidden),
            .memory = kept(reading.memory, capacity),
            .equilibria = {}};
  }

  torch::Tensor log_probabilities(const torch::Tensor& hidden) override {
    return model_->log_probabilities(hidden);
  }

 private:
  models::QrnnMemory remembered(const TextMemory& memory) const {
    return models::QrnnMemory::of(memory, model_->options().layers);
  }

  static TextMemory kept(const models::QrnnMemory& memory, int64_t capacity) {
    return capacity == 0 ? TextMemory{} : memory.tensors();
  }

  models::AwdQrnn model_;
};

}  // namespace

std::unique_ptr<LanguageNetwork> make_network(const QrnnModel& model, int64_t words,
                                              const at::Generator& generator) {
  return std::make_unique<QrnnNetwork>(
      models::AwdQrnn(for_vocabulary<models::QrnnOptions>(model, words), generator));
}

}  // namespace deq::lab

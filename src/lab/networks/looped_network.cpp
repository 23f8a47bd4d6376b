#include "deq/models/transformer/looped.h"

#include <utility>

#include "lab/networks/for_vocabulary.h"
#include "lab/networks/networks.h"

namespace deq::lab {
namespace {

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

}  // namespace

std::unique_ptr<LanguageNetwork> make_network(const LoopedModel& model, int64_t words,
                                              const at::Generator& generator) {
  return std::make_unique<LoopedNetwork>(
      models::LoopedTransformer(for_vocabulary<models::LoopedTransformerOptions>(model, words),
                                generator),
      model.exits);
}

}  // namespace deq::lab

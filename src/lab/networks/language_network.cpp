#include "lab/networks/language_network.h"

#include <variant>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "lab/base/misuse.h"
#include "lab/networks/networks.h"

namespace deq::lab {

TextCost LanguageNetwork::forward_with_exits(const torch::Tensor&, const torch::Tensor&,
                                             const TextMemory&, int64_t, const EquilibriumPlan&,
                                             double) {
  throw Error("this network has no loop that words could leave");
}

std::unique_ptr<LanguageNetwork> make_language_network(
    const LanguageModel& model, int64_t words, at::Generator generator,
    const std::shared_ptr<models::TensorParallel>& group) {
  if (group) {
    const auto* gpt2 = std::get_if<Gpt2Model>(&model);
    require<UsageError>(gpt2 != nullptr, "only gpt2 can be held in parts");
    return refusals_as_misuse([&] { return make_network(*gpt2, words, generator, group); });
  }
  return std::visit(
      [&](const auto& chosen) {
        return refusals_as_misuse([&] { return make_network(chosen, words, generator); });
      },
      model);
}

void require_readable_segments(const LanguageConfig& config) {
  const auto* gpt2 = std::get_if<Gpt2Model>(&config.model);
  if (gpt2 == nullptr) return;
  const auto check = [gpt2](const char* prefix, int64_t segment, int64_t memory) {
    require<UsageError>(
        segment + memory <= gpt2->positions,
        "data.{0}segment = {1} and data.{0}memory = {2} are {3} words together, must be at most "
        "model.positions = {4}",
        prefix, segment, memory, segment + memory, gpt2->positions);
  };
  check("", config.data.segment, config.data.memory);
  check("eval_", config.data.eval_segment, config.data.eval_memory);
}

}  // namespace deq::lab

#include "lab/train/language_network.h"

#include <variant>

#include "deq/core/error.h"
#include "lab/train/networks/networks.h"

namespace deq::lab {

TextCost LanguageNetwork::forward_with_exits(const torch::Tensor&, const torch::Tensor&,
                                             const TextMemory&, int64_t, const EquilibriumPlan&,
                                             double) {
  throw Error("this network has no loop that words could leave");
}

std::unique_ptr<LanguageNetwork> make_language_network(const LanguageModel& model, int64_t words,
                                                       at::Generator generator) {
  return std::visit([&](const auto& chosen) { return make_network(chosen, words, generator); },
                    model);
}

}  // namespace deq::lab

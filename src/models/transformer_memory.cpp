#include "models/transformer_memory.h"

#include <algorithm>

#include "deq/core/error.h"

namespace deq {

void check_tokens(std::string_view who, const torch::Tensor& tokens) {
  require(tokens.dim() == 2 && tokens.size(1) > 0 && tokens.scalar_type() == torch::kInt64, who,
          ": tokens of shape ", tokens.sizes(), " and type ", tokens.scalar_type(),
          ", must be [B, T] with T ≥ 1, of int64");
}

torch::Tensor last_positions(const torch::Tensor& memory, const torch::Tensor& next,
                             int64_t capacity) {
  if (capacity == 0) return {};
  const auto from_next = std::min(capacity, next.size(1));
  const auto fresh = next.detach().narrow(1, next.size(1) - from_next, from_next);
  const auto known = memory.defined() ? memory.size(1) : 0;
  const auto from_memory = std::min(capacity - from_next, known);
  if (from_memory == 0) return fresh.clone(torch::MemoryFormat::Contiguous);
  return torch::cat({memory.detach().narrow(1, known - from_memory, from_memory), fresh}, 1);
}

std::vector<TiedName> with_model_names(const std::vector<TiedName>& names) {
  std::vector<TiedName> full;
  full.reserve(names.size());
  for (const auto& [name, owner] : names) full.emplace_back("crit." + name, "word_emb." + owner);
  return full;
}

}  // namespace deq

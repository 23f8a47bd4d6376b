#include "models/transformer/memory.h"

#include <algorithm>

#include "core/require.h"

namespace deq::models {

void check_tokens(std::string_view who, const torch::Tensor& tokens) {
  require(tokens.dim() == 2 && tokens.size(1) > 0 && tokens.scalar_type() == torch::kInt64,
          "{}: tokens of shape {} and type {}, must be [B, T] with T ≥ 1, of int64", who,
          tokens.sizes(), tokens.scalar_type());
}

void check_memory(std::string_view who, const TransformerXlMemory& memory, size_t layers,
                  const MemoryShape& shape) {
  require(memory.capacity >= 0, "{}: a memory's capacity = {}, must be ≥ 0", who, memory.capacity);
  require(memory.layers.empty() || memory.layers.size() == layers,
          "{}: a memory of {} layers, must have {} or none", who, memory.layers.size(), layers);
  const std::vector<int64_t> sizes{shape.batch, memory.length(), shape.width};
  for (const auto& layer : memory.layers) {
    require(layer.sizes() == sizes, "{}: a memory of shape {}, must be {}", who, layer.sizes(),
            c10::IntArrayRef(sizes));
  }
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

}  // namespace deq::models

#pragma once

#include <torch/types.h>

#include <string_view>
#include <vector>

#include "deq/models/transformer/adaptive_softmax.h"
#include "deq/models/transformer/transformer_xl.h"

// What the Transformers do with text and memory.

namespace deq::models {

void check_tokens(std::string_view who, const torch::Tensor& tokens);

/// What the memory of every layer is to be as wide as, and to have as many rows as.
struct MemoryShape {
  int64_t batch = 0, width = 0;
};
void check_memory(std::string_view who, const TransformerXlMemory& memory, size_t layers,
                  const MemoryShape& shape);

/// The last `capacity` positions of memory [B, m, n], if defined, and `next` [B, q, n] after it;
/// detached, in storage of their own. Undefined at capacity 0.
torch::Tensor last_positions(const torch::Tensor& memory, const torch::Tensor& next,
                             int64_t capacity);

/// A softmax's tied names with those of softmax and embedding in a model before them.
std::vector<TiedName> with_model_names(const std::vector<TiedName>& names);

}  // namespace deq::models

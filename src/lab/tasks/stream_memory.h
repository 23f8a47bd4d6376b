#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "deq/lab/data/batches/shard.h"
#include "deq/lab/distributed/world.h"
#include "lab/networks/language_network.h"

namespace deq::lab {

/// What a model in training remembers of each stream of its text, from one step to the next.
class StreamMemory {
 public:
  /// `batches` of an epoch, at whose beginning nothing is remembered.
  StreamMemory(const Shard& shard, int64_t batches);

  /// That of the streams whose turn it is. What a pass without a finite loss has left is forgotten.
  const TextMemory& next();

  /// What the pass leaves; comes once after each next().
  void remember(TextMemory memory, const torch::Tensor& loss);

  /// The memory of all ranks and parts, its rows in the order of the streams. Between two steps.
  std::map<std::string, torch::Tensor> gather(World& world) const;

  /// As it was after `step` steps, on any number of ranks and parts.
  void restore(int64_t step, const std::map<std::string, torch::Tensor>& gathered,
               torch::Device device);

 private:
  struct Part {
    TextMemory memory;
    torch::Tensor loss;  // of the pass that left it
  };

  Part& turn() { return parts_[static_cast<size_t>(batch_ % shard_.parts)]; }

  Shard shard_;
  int64_t batches_;
  int64_t batch_ = 0;  // since the start of the training
  std::vector<Part> parts_;
};

}  // namespace deq::lab

#include "lab/train/stream_memory.h"

#include <cmath>
#include <utility>

#include "core/require.h"

namespace deq::lab {

StreamMemory::StreamMemory(const Shard& shard, int64_t batches)
    : shard_(shard), batches_(batches), parts_(static_cast<size_t>(shard.parts)) {}

const TextMemory& StreamMemory::next() {
  auto& part = turn();
  const bool epoch_begins = batch_ % batches_ < shard_.parts;
  const bool spoilt = part.loss.defined() && !std::isfinite(part.loss.item<double>());
  if (epoch_begins || spoilt) part = {};
  return part.memory;
}

void StreamMemory::remember(TextMemory memory, const torch::Tensor& loss) {
  turn() = {.memory = std::move(memory), .loss = loss};
  ++batch_;
}

std::map<std::string, torch::Tensor> StreamMemory::gather(World& world) const {
  std::map<std::string, torch::Tensor> gathered;
  // All ranks and parts have read equally much, so all have something or none has.
  const auto& pattern = parts_.front().memory;
  for (size_t i = 0; i < pattern.size(); ++i) {
    auto shape = pattern[i].sizes().vec();
    shape[0] = shard_.batch_size;
    const auto whole = torch::zeros(shape, pattern[i].options());
    for (int64_t part = 0; part < shard_.parts; ++part) {
      whole.narrow(0, shard_.first_position(part), shard_.slice_size())
          .copy_(parts_[static_cast<size_t>(part)].memory[i]);
    }
    world.sum(whole);
    gathered["memory." + std::to_string(i)] = whole;
  }
  return gathered;
}

void StreamMemory::restore(int64_t step, const std::map<std::string, torch::Tensor>& gathered,
                           torch::Device device) {
  batch_ = step * shard_.parts;
  for (int64_t part = 0; part < shard_.parts; ++part) {
    TextMemory memory(gathered.size());
    for (size_t i = 0; i < gathered.size(); ++i) {
      const auto found = gathered.find("memory." + std::to_string(i));
      require(found != gathered.end(), "the checkpoint lacks part {} of the model's memory", i);
      require(found->second.size(0) == shard_.batch_size,
              "the checkpoint's memory is of {} streams, but train.batch_size = {}",
              found->second.size(0), shard_.batch_size);
      memory[i] = found->second.narrow(0, shard_.first_position(part), shard_.slice_size())
                      .to(device)
                      .clone();
    }
    parts_[static_cast<size_t>(part)] = {.memory = std::move(memory), .loss = {}};
  }
}

}  // namespace deq::lab

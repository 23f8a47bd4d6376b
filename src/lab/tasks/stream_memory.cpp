#include "lab/tasks/stream_memory.h"

#include <cmath>
#include <utility>

#include "lab/tasks/carried_rows.h"

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
  RowsOfParts rows;
  for (const auto& part : parts_) rows.push_back(part.memory);
  return gather_rows(rows, shard_, world);
}

void StreamMemory::restore(int64_t step, const std::map<std::string, torch::Tensor>& gathered,
                           torch::Device device) {
  batch_ = step * shard_.parts;
  auto rows = scatter_rows(gathered, shard_, device);
  for (size_t part = 0; part < parts_.size(); ++part) {
    parts_[part] = {.memory = std::move(rows[part]), .loss = {}};
  }
}

}  // namespace deq::lab

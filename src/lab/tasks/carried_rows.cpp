#include "lab/tasks/carried_rows.h"

#include "core/require.h"

namespace deq::lab {
namespace {

std::string name_of_rows(size_t i) {
  return "memory." + std::to_string(i);
}

}  // namespace

std::map<std::string, torch::Tensor> gather_rows(const RowsOfParts& parts, const Shard& shard,
                                                 World& world) {
  std::map<std::string, torch::Tensor> gathered;
  // All ranks and parts have read equally much, so all have something or none has.
  const auto& pattern = parts.front();
  for (size_t i = 0; i < pattern.size(); ++i) {
    auto shape = pattern[i].sizes().vec();
    shape[0] = shard.batch_size;
    const auto whole = torch::zeros(shape, pattern[i].options());
    for (int64_t part = 0; part < shard.parts; ++part) {
      whole.narrow(0, shard.first_position(part), shard.slice_size())
          .copy_(parts[static_cast<size_t>(part)][i]);
    }
    world.sum(whole);
    gathered[name_of_rows(i)] = whole;
  }
  return gathered;
}

RowsOfParts scatter_rows(const std::map<std::string, torch::Tensor>& gathered, const Shard& shard,
                         torch::Device device) {
  RowsOfParts parts(static_cast<size_t>(shard.parts));
  for (int64_t part = 0; part < shard.parts; ++part) {
    auto& rows = parts[static_cast<size_t>(part)];
    for (size_t i = 0; i < gathered.size(); ++i) {
      const auto found = gathered.find(name_of_rows(i));
      require(found != gathered.end(), "the checkpoint lacks part {} of the model's memory", i);
      require(found->second.size(0) == shard.batch_size,
              "the checkpoint's memory is of {} streams, but train.batch_size = {}",
              found->second.size(0), shard.batch_size);
      rows.push_back(found->second.narrow(0, shard.first_position(part), shard.slice_size())
                         .to(device)
                         .clone());
    }
  }
  return parts;
}

}  // namespace deq::lab

#include "deq/data/shard.h"

#include "deq/core/error.h"

namespace deq {

int64_t Shard::first_entry(int64_t index) const {
  return index / parts * batch_size + first_position(index % parts);
}

int64_t Shard::batches(int64_t samples) const {
  require<UsageError>(samples >= batch_size, "batch_size = ", batch_size, ", must be at most the ",
                      samples, " samples of the data set");
  return samples / batch_size * parts;
}

void validate(const Shard& shard) {
  require(shard.ranks >= 1, "shard: ranks = ", shard.ranks, ", must be ≥ 1");
  require(shard.rank >= 0 && shard.rank < shard.ranks, "shard: rank = ", shard.rank,
          ", must be ≥ 0 and < ", shard.ranks);
  require(shard.parts >= 1, "shard: parts = ", shard.parts, ", must be ≥ 1");
  const auto slices = shard.ranks * shard.parts;
  require(shard.batch_size >= 1 && shard.batch_size % slices == 0,
          "shard: batch_size = ", shard.batch_size, ", must be a positive multiple of ", slices,
          ", its ranks times its parts");
}

}  // namespace deq

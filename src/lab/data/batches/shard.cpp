#include "deq/lab/data/batches/shard.h"

#include "core/require.h"
#include "deq/lab/base/errors.h"

namespace deq::lab {

int64_t Shard::first_entry(int64_t index) const {
  return index / parts * batch_size + first_position(index % parts);
}

int64_t Shard::batches(int64_t samples) const {
  require<UsageError>(samples >= batch_size,
                      "batch_size = {}, must be at most the {} samples of the data set", batch_size,
                      samples);
  return samples / batch_size * parts;
}

void validate(const Shard& shard) {
  require(shard.ranks >= 1, "shard: ranks = {}, must be ≥ 1", shard.ranks);
  require(shard.rank >= 0 && shard.rank < shard.ranks, "shard: rank = {}, must be ≥ 0 and < {}",
          shard.rank, shard.ranks);
  require(shard.parts >= 1, "shard: parts = {}, must be ≥ 1", shard.parts);
  const auto slices = shard.ranks * shard.parts;
  require(shard.batch_size >= 1 && shard.batch_size % slices == 0,
          "shard: batch_size = {}, must be a positive multiple of {}, its ranks times its parts",
          shard.batch_size, slices);
}

}  // namespace deq::lab

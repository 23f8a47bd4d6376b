#include "deq/lab/data/text/segment_batches.h"

#include <algorithm>

#include "core/require.h"
#include "deq/lab/base/errors.h"

namespace deq::lab {
namespace {

torch::Tensor cut_into_streams(const torch::Tensor& tokens, int64_t streams) {
  require(tokens.dim() == 1 &&
              (tokens.scalar_type() == torch::kInt32 || tokens.scalar_type() == torch::kInt64),
          "segments: tokens is {} {}, must be int32 or int64 [N]", tokens.scalar_type(),
          tokens.sizes());
  // A stream of one token has nothing to predict.
  require<UsageError>(tokens.numel() >= 2 * streams,
                      "batch_size = {}, must be at most half of the {} tokens of the text", streams,
                      tokens.numel());
  const auto length = tokens.numel() / streams;
  return tokens.narrow(0, 0, streams * length).view({streams, length});
}

}  // namespace

SegmentBatches::SegmentBatches(const torch::Tensor& tokens, int64_t length, const Shard& shard)
    : streams_((validate(shard), cut_into_streams(tokens, shard.batch_size))),
      length_(length),
      shard_(shard) {
  require(length >= 1, "segments: length = {}, must be ≥ 1", length);
}

int64_t SegmentBatches::segments() const {
  return (streams_.size(1) - 1 + length_ - 1) / length_;
}

Batch SegmentBatches::batch(int64_t /*epoch*/, int64_t index) const {
  require(index >= 0 && index < batches(), "segments: index = {}, must be ≥ 0 and < {}", index,
          batches());
  const auto begin = index / shard_.parts * length_;
  const auto length = std::min(length_, streams_.size(1) - 1 - begin);
  const auto mine =
      streams_.narrow(0, shard_.first_position(index % shard_.parts), shard_.slice_size());
  const auto at = [&](int64_t first) {
    return mine.narrow(1, first, length).to(torch::kInt64).contiguous();
  };
  return {.tensors = {at(begin), at(begin + 1)}};
}

}  // namespace deq::lab

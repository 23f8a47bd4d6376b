#include "deq/lab/data/batches/tensor_batches.h"

#include "core/require.h"

namespace deq::lab {
namespace {

int64_t common_length(const std::vector<torch::Tensor>& tensors) {
  require(!tensors.empty(), "tensors: there is none, must be at least one");
  for (size_t i = 0; i < tensors.size(); ++i) {
    require(tensors[i].dim() >= 1, "tensors: tensor {} is a scalar, must have samples", i);
    require(tensors[i].size(0) == tensors[0].size(0),
            "tensors: tensor {} has {} samples, must be {} as of tensor 0", i, tensors[i].size(0),
            tensors[0].size(0));
    require(tensors[i].device() == tensors[0].device(),
            "tensors: tensor {} is on {}, must be on {} as tensor 0 is", i, tensors[i].device(),
            tensors[0].device());
  }
  return tensors[0].size(0);
}

}  // namespace

TensorBatches::TensorBatches(std::vector<torch::Tensor> tensors, const Shard& shard)
    : tensors_(std::move(tensors)),
      shard_((validate(shard), shard)),
      batches_(shard.batches(common_length(tensors_))),
      order_(tensors_[0].size(0), shard.seed, shard.shuffle, tensors_[0].device()) {}

Batch TensorBatches::batch(int64_t epoch, int64_t index) const {
  const auto chosen = order_.of(epoch).narrow(0, shard_.first_entry(index), shard_.slice_size());
  Batch batch;
  batch.tensors.reserve(tensors_.size());
  for (const auto& tensor : tensors_) batch.tensors.push_back(tensor.index_select(0, chosen));
  return batch;
}

}  // namespace deq::lab

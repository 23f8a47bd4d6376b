#include "deq/lab/data/batches/epoch_order.h"

#include "lab/base/random_streams.h"

namespace deq::lab {

EpochOrder::EpochOrder(int64_t samples, uint64_t seed, bool shuffle, torch::Device device)
    : samples_(samples), seed_(seed), shuffle_(shuffle), device_(device) {}

torch::Tensor EpochOrder::draw(int64_t epoch) const {
  const auto options = torch::TensorOptions(torch::kInt64);
  if (!shuffle_) return torch::arange(samples_, options.device(device_));
  // A stream beyond the small numbers that other purposes of the same seed use.
  const auto stream = epoch_stream(EpochStream::Order, epoch);
  return torch::randperm(samples_, deq::random_stream(seed_, stream), options).to(device_);
}

torch::Tensor EpochOrder::of(int64_t epoch) const {
  const int64_t named = shuffle_ ? epoch : 0;
  // Others wait for an order being drawn: they would draw the same.
  const std::lock_guard lock(mutex_);
  auto& entry = drawn_[static_cast<size_t>(named % 2)];
  if (entry.epoch != named) entry = {named, draw(named)};
  return entry.order;
}

}  // namespace deq::lab

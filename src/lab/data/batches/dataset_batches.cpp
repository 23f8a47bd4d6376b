#include "deq/lab/data/batches/dataset_batches.h"

#include <c10/util/Exception.h>

#include <optional>
#include <string>

#include "core/require.h"
#include "lab/base/random_streams.h"

namespace deq::lab {
namespace {

using Sample = std::vector<torch::Tensor>;

bool alike(const Sample& a, const Sample& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type();
  });
}

std::string shapes(const Sample& sample) {
  std::string text;
  for (const auto& tensor : sample) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", tensor.scalar_type(), tensor.sizes());
  }
  return text;
}

/// Why the sample cannot be read, or nothing and the sample.
std::optional<std::string> read_sample(const Dataset& dataset, int64_t index, uint64_t key,
                                       Sample& sample) {
  try {
    sample = dataset.get(index, key);
    return std::nullopt;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::vector<torch::Tensor> stack(const std::vector<Sample>& samples) {
  std::vector<torch::Tensor> stacked;
  for (size_t i = 0; i < samples.front().size(); ++i) {
    std::vector<torch::Tensor> column;
    column.reserve(samples.size());
    for (const auto& sample : samples) column.push_back(sample[i]);
    stacked.push_back(torch::stack(column));
  }
  return stacked;
}

}  // namespace

DatasetBatches::DatasetBatches(std::shared_ptr<const Dataset> dataset, const Shard& shard,
                               OnUnreadable on_unreadable)
    : dataset_(std::move(dataset)),
      shard_((validate(shard), shard)),
      on_unreadable_(on_unreadable),
      batches_(shard.batches(dataset_->size())),
      order_(dataset_->size(), shard.seed, shard.shuffle) {}

Batch DatasetBatches::batch(int64_t epoch, int64_t index) const {
  const auto order = order_.of(epoch);
  const auto* entries = order.const_data_ptr<int64_t>() + shard_.first_entry(index);
  const auto stream = epoch_stream(EpochStream::Samples, epoch);
  Batch batch;
  std::vector<Sample> samples;
  std::string reason;
  for (int64_t i = 0; i < shard_.slice_size(); ++i) {
    const auto entry = entries[i];
    Sample sample;
    const auto unreadable =
        read_sample(*dataset_, entry,
                    deq::random_key(shard_.seed, stream, static_cast<uint64_t>(entry)), sample);
    if (unreadable) {
      reason = fmt::format("{} cannot be read: {}", dataset_->describe(entry), *unreadable);
      require(on_unreadable_ == OnUnreadable::Skip, "{}", reason);
      ++batch.skipped;
      continue;
    }
    if (!samples.empty() && !alike(sample, samples.front())) {
      throw Error(fmt::format("{} is {}, must be {} as the samples before it",
                              dataset_->describe(entry), shapes(sample), shapes(samples.front())));
    }
    samples.push_back(std::move(sample));
  }
  require(!samples.empty(), "no sample of a batch is left: {}", reason);
  batch.tensors = stack(samples);
  return batch;
}

}  // namespace deq::lab

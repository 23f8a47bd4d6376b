#pragma once

#include <cstdint>
#include <memory>

#include "deq/lab/data/batches/batch.h"
#include "deq/lab/data/batches/batch_source.h"

namespace deq::lab {

struct LoaderOptions {
  int64_t workers = 0;   ///< ≥ 0 threads that load ahead; 0: next() loads
  int64_t prefetch = 2;  ///< ≥ 1 batches loaded ahead at most, those in work included
};

void validate(const LoaderOptions& options);

/// Gives the batches of a source in order, epoch after epoch without end. The batches do not depend
/// on the options. To be used from one thread.
class Loader {
 public:
  explicit Loader(std::shared_ptr<const BatchSource> source, const LoaderOptions& options = {});
  /// Waits for the batches in work, as seek does.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Goes to a position ≥ 0: batches since the start of the training, over all epochs.
  void seek(int64_t position);
  /// The position of the batch that next() gives.
  int64_t position() const { return position_; }

  /// Throws what the source threw for this batch and stays there; another call tries it again.
  Batch next();

 private:
  class Workers;

  std::shared_ptr<const BatchSource> source_;
  LoaderOptions options_;
  int64_t position_ = 0;
  std::unique_ptr<Workers> workers_;  // only while they have something to load
};

}  // namespace deq::lab

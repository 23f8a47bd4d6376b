#pragma once

#include <cstdint>

#include "deq/lab/data/batches/batch.h"

namespace deq::lab {

/// Where batches come from. A batch depends only on its position, so that the position of a
/// training is one number and any number of workers gives the same batches.
class BatchSource {
 public:
  BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;
  virtual ~BatchSource() = default;

  /// Batches of an epoch, ≥ 1.
  virtual int64_t batches() const = 0;

  /// Batch `index` of `epoch`, 0 ≤ index < batches(). Called from several threads at once.
  virtual Batch batch(int64_t epoch, int64_t index) const = 0;
};

}  // namespace deq::lab

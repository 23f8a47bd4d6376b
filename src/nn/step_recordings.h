#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "nn/recorded_step.h"

namespace deq {

/// The recorded steps of one layer, by the shapes they are for. May be used from several threads.
class StepRecordings {
 public:
  /// A recorded step for this pass alone, prepared for its inputs, until the last reference goes.
  /// None on devices without graphs, at the first pass with new shapes (which may never come
  /// again), while too many are in use, and where the step cannot be recorded, which is said once.
  std::shared_ptr<RecordedStep> lend(const StepShape& shape);

 private:
  using Signature = std::vector<int64_t>;

  struct Entry {
    Signature signature;
    std::shared_ptr<RecordedStep> step;  // nobody else holds it while it is free
  };

  std::shared_ptr<RecordedStep> find_free(const Signature& signature);
  std::shared_ptr<RecordedStep> record(const Signature& signature, const StepShape& shape);

  std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last comes first
  std::set<Signature> seen_, refused_;
};

}  // namespace deq

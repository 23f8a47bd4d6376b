#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "deq/lab/distributed/world.h"
#include "lab/distributed/backends.h"

namespace deq::lab {

/// The backends that a verdict is to end, on whichever thread it is heard.
class Abortable {
 public:
  void add(distributed::BackendPtr backend) {
    const std::lock_guard lock(mutex_);
    backends_.push_back(std::move(backend));
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    for (const auto& backend : backends_) backend->abort();
  }

 private:
  std::mutex mutex_;
  std::vector<distributed::BackendPtr> backends_;
};

/// What connects a rank to the others.
struct World::Links {
  torch::Device device;
  distributed::StorePtr store;
  std::shared_ptr<distributed::Sentinel> sentinel;
  distributed::BackendPtr backend;
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // the backend, as c10d's reducer wants it
  std::shared_ptr<Abortable> abortable;
  std::chrono::seconds timeout;
  std::shared_ptr<World> whole{};  // of which this world has some of the ranks, if it is so
  int64_t comparisons = 0;
};

}  // namespace deq::lab

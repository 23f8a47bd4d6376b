#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "deq/lab/distributed/world.h"
#include "lab/distributed/backends.h"

namespace deq::lab {

/// What connects a rank to the others.
struct World::Links {
  torch::Device device;
  distributed::StorePtr store;
  std::shared_ptr<distributed::Sentinel> sentinel;
  distributed::BackendPtr backend;
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // the backend, as c10d's reducer wants it
  int64_t comparisons = 0;
};

}  // namespace deq::lab

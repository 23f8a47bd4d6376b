#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>

#include "deq/lab/distributed/rank_info.h"
#include "lab/distributed/sentinel.h"

namespace deq::lab::distributed {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// Collectives on the CPU.
BackendPtr make_gloo(const StorePtr& store, const RankInfo& self,
                     std::chrono::milliseconds timeout);
/// Collectives on GPUs, out of the CUDA plugin; an Error where it was built without NCCL.
BackendPtr make_nccl(const StorePtr& store, const RankInfo& self, torch::Device device,
                     std::chrono::milliseconds timeout);

/// What the plugin exports as deq_make_nccl.
using MakeNccl = void(const StorePtr& store, const RankInfo& self, torch::Device device,
                      std::chrono::milliseconds timeout, BackendPtr& made);

/// Sums and broadcasts of `inner`, whose failures are thrown as the sentinel explains them: from a
/// wait, from a future, and so from backward.
BackendPtr explained(BackendPtr inner, std::shared_ptr<Sentinel> sentinel);

}  // namespace deq::lab::distributed

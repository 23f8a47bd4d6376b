#include "deq/distributed/world.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "deq/core/error.h"
#include "distributed/first_difference.h"
#include "distributed/links.h"

namespace deq {
namespace {

using distributed::beat_key;
using distributed::name_of;
using distributed::names_of;
using distributed::StorePtr;
using std::chrono::milliseconds;

void validate(const WorldPlace& place, std::chrono::seconds timeout) {
  require(place.size >= 1, "a world of ", place.size, " processes; allowed: 1 or more");
  require(place.rank >= 0 && place.rank < place.size, "rank is ", place.rank, " in a world of ",
          place.size, "; allowed: 0 to ", place.size - 1);
  require(timeout.count() > 0, "timeout is ", timeout.count(), " s; allowed: more than 0");
}

/// c10d prints a stack trace where a connection is lost, which is said here in a sentence. Who sets
/// its level in the environment keeps it.
void quieten_c10d() {
  constexpr int kErrorsOnly = 2;
  if (std::getenv("TORCH_CPP_LOG_LEVEL") != nullptr) return;
  FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, kErrorsOnly);
}

/// Gloo writes to its sockets without MSG_NOSIGNAL: where a peer is gone, a rank that has not
/// chosen otherwise would be ended by SIGPIPE before it could say so. Python ignores the signal as
/// well.
void survive_broken_connections() {
  struct sigaction current {};
  sigaction(SIGPIPE, nullptr, &current);
  if (current.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

/// A connection to the store of its own: one that waits holds up nobody else.
StorePtr connect(const WorldPlace& place, bool host, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = host;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return distributed::part_of(c10::make_intrusive<c10d::TCPStore>(place.address, options),
                                place.attempt);
  } catch (const c10::Error& error) {
    throw Error(c10::str(name_of(place.rank, place.size),
                         host ? " cannot host the store at " : " found no store at ", place.address,
                         ":", place.port, ": ", error.what_without_backtrace()));
  }
}

void meet(const WorldPlace& place, c10d::Store& store, milliseconds timeout) {
  require(store.add(beat_key(place.rank), 1) == 1, "two processes say that they are ",
          name_of(place.rank, place.size));
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < place.size; ++rank) keys.push_back(beat_key(rank));
  try {
    store.wait(keys, timeout);
  } catch (const c10::Error& error) {
    std::vector<int64_t> missing;
    for (int64_t rank = 0; rank < place.size; ++rank) {
      if (!store.check({beat_key(rank)})) missing.push_back(rank);
    }
    require(missing.empty(), names_of(missing, place.size), " did not come within ",
            std::chrono::duration_cast<std::chrono::seconds>(timeout).count(), " s");
  }
}

}  // namespace

World::World(const WorldPlace& place, std::unique_ptr<Links> links)
    : place_(place), links_(std::move(links)) {}

World::~World() {
  // Before the backend goes: the sentinel's thread has a hand on it.
  if (links_) links_->sentinel->leave();
}

std::shared_ptr<World> World::alone() {
  return std::shared_ptr<World>(new World({}, nullptr));
}

std::shared_ptr<World> World::join(const WorldPlace& place, torch::Device device,
                                   std::chrono::seconds timeout) {
  validate(place, timeout);
  if (place.size == 1) return alone();
  quieten_c10d();
  survive_broken_connections();
  const bool host = place.rank == 0 && !place.store_is_hosted;
  const auto store = connect(place, host, timeout);
  meet(place, *store, timeout);
  auto backend = device.is_cuda() ? distributed::make_nccl(store, place, device, timeout)
                                  : distributed::make_gloo(store, place, timeout);
  // For NCCL, whose kernels wait on the GPU; Gloo sees by itself that a connection is closed.
  const auto sentinel = std::make_shared<distributed::Sentinel>(
      place, connect(place, false, timeout), timeout, [backend] { backend->abort(); });
  backend = distributed::explained(backend, sentinel);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, static_cast<int>(place.rank),
                                                       static_cast<int>(place.size));
  const auto kind =
      device.is_cuda() ? c10d::ProcessGroup::BackendType::NCCL : c10d::ProcessGroup::GLOO;
  group->setBackend(device.type(), kind, backend);
  group->setDefaultBackend(kind);
  return std::shared_ptr<World>(
      new World(place, std::make_unique<Links>(Links{device, store, sentinel, backend, group})));
}

void World::sum(const torch::Tensor& tensor) {
  if (!links_) return;
  std::vector<torch::Tensor> tensors{tensor.detach().contiguous()};
  links_->backend->allreduce(tensors, {})->wait();
  if (!tensor.is_contiguous()) tensor.detach().copy_(tensors[0]);
}

void World::broadcast(const torch::Tensor& tensor, int64_t from) {
  require(from >= 0 && from < size(), "broadcast from rank ", from, "; allowed: 0 to ", size() - 1);
  if (!links_) return;
  std::vector<torch::Tensor> tensors{tensor.detach().contiguous()};
  c10d::BroadcastOptions options;
  options.rootRank = from;
  links_->backend->broadcast(tensors, options)->wait();
  if (!tensor.is_contiguous()) tensor.detach().copy_(tensors[0]);
}

void World::barrier() {
  if (!links_) return;
  const auto token = torch::zeros({1}, links_->device);
  sum(token);
  token.item();  // on a GPU a sum is only enqueued
  const auto verdict = links_->sentinel->verdict();
  require(verdict.empty(), verdict);
}

void World::require_same(const std::string& what, const std::string& text) {
  if (!links_) return;
  const auto comparison = links_->comparisons++;
  const auto key = [&](int64_t r) { return c10::str("same/", comparison, "/", r); };
  links_->store->set(key(rank()), text);
  barrier();
  const auto expected = links_->store->get_to_str(key(0));
  std::vector<int64_t> different;
  std::string difference;
  for (int64_t r = 1; r < size(); ++r) {
    const auto found = links_->store->get_to_str(key(r));
    if (found == expected) continue;
    if (different.empty()) difference = distributed::first_difference(expected, found);
    different.push_back(r);
  }
  barrier();  // nobody leaves before all have read
  require(different.empty(), what, " must be the same on all ranks, and is another on ",
          different.empty() ? "" : names_of(different, size()), ": ", difference);
}

void World::run(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& error) {
    if (links_) links_->sentinel->report(error.what_without_backtrace());
    throw;
  } catch (const std::exception& error) {
    if (links_) links_->sentinel->report(error.what());
    throw;
  }
}

}  // namespace deq

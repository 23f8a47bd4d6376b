#include "deq/lab/distributed/world.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "core/require.h"
#include "lab/distributed/links.h"

namespace deq::lab {
namespace {

using distributed::beat_key;
using distributed::name_of;
using distributed::names_of;
using distributed::StorePtr;
using std::chrono::milliseconds;

/// Where two different texts begin to differ: line 3 is "b = 2", on rank 0 "b = 1".
std::string first_difference(const std::string& rank_0, const std::string& other) {
  std::istringstream expected(rank_0), found(other);
  for (int line = 1;; ++line) {
    std::string a, b;
    const bool has_a = static_cast<bool>(std::getline(expected, a));
    const bool has_b = static_cast<bool>(std::getline(found, b));
    if (!has_a && !has_b) return "they end differently";  // in a newline that one of them lacks
    if (has_a && has_b && a == b) continue;
    const auto quoted = [](bool has, const std::string& text) {
      return has ? "\"" + text + "\"" : std::string("missing");
    };
    return fmt::format("line {} is {}, on rank 0 {}", line, quoted(has_b, b), quoted(has_a, a));
  }
}

void validate(const RankInfo& self, std::chrono::seconds timeout) {
  require(self.size >= 1, "a world of {} processes; allowed: 1 or more", self.size);
  require(self.rank >= 0 && self.rank < self.size, "rank is {} in a world of {}; allowed: 0 to {}",
          self.rank, self.size, self.size - 1);
  require(timeout.count() > 0, "timeout is {} s; allowed: more than 0", timeout.count());
}

/// c10d prints a stack trace where a connection is lost; our own message is a sentence. A level set
/// in the environment is kept.
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

/// A connection of its own to the store: waiting on it blocks nobody else.
StorePtr connect(const RankInfo& self, bool host, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = self.port;
  options.isServer = host;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return distributed::part_of(c10::make_intrusive<c10d::TCPStore>(self.address, options),
                                self.attempt);
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}{}{}:{}: {}", name_of(self.rank, self.size),
                            host ? " cannot host the store at " : " found no store at ",
                            self.address, self.port, error.what_without_backtrace()));
  }
}

void meet(const RankInfo& self, c10d::Store& store, milliseconds timeout) {
  require(store.add(beat_key(self.rank), 1) == 1, "two processes say that they are {}",
          name_of(self.rank, self.size));
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < self.size; ++rank) keys.push_back(beat_key(rank));
  try {
    store.wait(keys, timeout);
  } catch (const c10::Error& error) {
    std::vector<int64_t> missing;
    for (int64_t rank = 0; rank < self.size; ++rank) {
      if (!store.check({beat_key(rank)})) missing.push_back(rank);
    }
    require(missing.empty(), "{} did not come within {} s", names_of(missing, self.size),
            std::chrono::duration_cast<std::chrono::seconds>(timeout).count());
  }
}

distributed::BackendPtr make_backend(const StorePtr& store, const RankInfo& self,
                                     torch::Device device, std::chrono::seconds timeout) {
  return device.is_cuda() ? distributed::make_nccl(store, self, device, timeout)
                          : distributed::make_gloo(store, self, timeout);
}

c10::intrusive_ptr<c10d::ProcessGroup> group_of(const distributed::BackendPtr& backend,
                                                const StorePtr& store, torch::Device device) {
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(store, backend->getRank(), backend->getSize());
  const auto kind =
      device.is_cuda() ? c10d::ProcessGroup::BackendType::NCCL : c10d::ProcessGroup::GLOO;
  group->setBackend(device.type(), kind, backend);
  group->setDefaultBackend(kind);
  return group;
}

}  // namespace

World::World(const RankInfo& self, std::unique_ptr<Links> links)
    : self_(self), links_(std::move(links)) {}

World::~World() {
  // Before the backend goes: the sentinel's thread uses it.
  if (links_ && !links_->whole) links_->sentinel->leave();
}

std::shared_ptr<World> World::alone() {
  return std::shared_ptr<World>(new World({}, nullptr));
}

std::shared_ptr<World> World::join(const RankInfo& self, torch::Device device,
                                   std::chrono::seconds timeout) {
  validate(self, timeout);
  if (self.size == 1) return alone();
  quieten_c10d();
  survive_broken_connections();
  const bool host = self.rank == 0 && !self.store_is_hosted;
  const auto store = connect(self, host, timeout);
  meet(self, *store, timeout);
  auto backend = make_backend(store, self, device, timeout);
  const auto abortable = std::make_shared<Abortable>();
  abortable->add(backend);
  // For NCCL, whose kernels wait on the GPU; Gloo sees by itself that a connection is closed.
  const auto sentinel = std::make_shared<distributed::Sentinel>(
      self, connect(self, false, timeout), timeout, [abortable] { abortable->abort(); });
  backend = distributed::explained(backend, sentinel);
  const auto group = group_of(backend, store, device);
  return std::shared_ptr<World>(new World(
      self,
      std::make_unique<Links>(Links{device, store, sentinel, backend, group, abortable, timeout})));
}

std::shared_ptr<World> World::among(const std::shared_ptr<World>& world, const std::string& name,
                                    int64_t rank, int64_t size) {
  if (size == 1) return alone();
  if (size == world->size()) return world;
  const auto& links = *world->links_;
  auto self = world->self_;
  self.rank = rank;
  self.size = size;
  const StorePtr store = c10::make_intrusive<c10d::PrefixStore>(name, links.store);
  auto backend = make_backend(store, self, links.device, links.timeout);
  links.abortable->add(backend);
  backend = distributed::explained(backend, links.sentinel);
  const auto group = group_of(backend, store, links.device);
  return std::shared_ptr<World>(new World(
      self, std::make_unique<Links>(Links{links.device, store, links.sentinel, backend, group,
                                          links.abortable, links.timeout, world})));
}

World::Grid World::grid(const std::shared_ptr<World>& world, int64_t columns) {
  require(columns >= 1 && world->size() % columns == 0,
          "{} ranks in rows of {}; allowed: what divides their number", world->size(), columns);
  const auto row = world->rank() / columns, column = world->rank() % columns;
  return {.row = among(world, fmt::format("row/{}", row), column, columns),
          .column = among(world, fmt::format("column/{}", column), row, world->size() / columns)};
}

void World::sum(const torch::Tensor& tensor) {
  if (!links_) return;
  std::vector<torch::Tensor> tensors{tensor.detach().contiguous()};
  links_->backend->allreduce(tensors, {})->wait();
  if (!tensor.is_contiguous()) tensor.detach().copy_(tensors[0]);
}

void World::broadcast(const torch::Tensor& tensor, int64_t from) {
  require(from >= 0 && from < size(), "broadcast from rank {}; allowed: 0 to {}", from, size() - 1);
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
  require(verdict.empty(), "{}", verdict);
}

void World::require_same(const std::string& what, const std::string& text) {
  if (!links_) return;
  const auto comparison = links_->comparisons++;
  const auto key = [&](int64_t r) { return fmt::format("same/{}/{}", comparison, r); };
  links_->store->set(key(rank()), text);
  barrier();
  const auto expected = links_->store->get_to_str(key(0));
  std::vector<int64_t> different;
  std::string difference;
  for (int64_t r = 1; r < size(); ++r) {
    const auto found = links_->store->get_to_str(key(r));
    if (found == expected) continue;
    if (different.empty()) difference = first_difference(expected, found);
    different.push_back(r);
  }
  barrier();  // nobody leaves before all have read
  require(different.empty(), "{} must be the same on all ranks, and is another on {}: {}", what,
          different.empty() ? "" : names_of(different, size()), difference);
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

}  // namespace deq::lab

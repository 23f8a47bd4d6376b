#include "deq/lab/data/batches/loader.h"

#include <ATen/Parallel.h>
#include <omp.h>
#include <torch/types.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <variant>
#include <vector>

#include "core/require.h"

namespace deq::lab {
namespace {

Batch load_batch(const BatchSource& source, int64_t position) {
  const torch::NoGradGuard no_grad;
  const auto batches = source.batches();
  return source.batch(position / batches, position % batches);
}

/// Keeps the operators of the calling thread in this thread. at::set_num_threads would hold for
/// threads that start later as well. Both calls before it take their share of torch's lazy
/// initialisation, which would undo it: torch's operators have one, templates compiled here
/// another.
void use_one_core() {
  at::get_num_threads();
  at::internal::lazy_init_num_threads();
  omp_set_num_threads(1);
}

}  // namespace

void validate(const LoaderOptions& options) {
  require(options.workers >= 0, "loader: workers = {}, must be ≥ 0", options.workers);
  require(options.prefetch >= 1, "loader: prefetch = {}, must be ≥ 1", options.prefetch);
}

/// Threads that load the positions from `first` on. Positions are handed out in order, and only
/// those less than `prefetch` ahead of the one to be taken next, so that each has a slot of its
/// own.
class Loader::Workers {
 public:
  Workers(const BatchSource& source, int64_t first, const LoaderOptions& options)
      : source_(source),
        next_to_take_(first),
        next_to_load_(first),
        slots_(static_cast<size_t>(options.prefetch)) {
    for (int64_t i = 0; i < std::min(options.workers, options.prefetch); ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
    }
  }

  ~Workers() {
    // All of them before the first is waited for: none shall begin another batch.
    for (auto& thread : threads_) thread.request_stop();
  }

  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  Batch take() {
    std::unique_lock lock(mutex_);
    auto& slot = slot_of(next_to_take_);
    arrived_.wait(lock, [&] { return slot.has_value(); });
    auto loaded = std::move(*slot);
    slot.reset();
    ++next_to_take_;
    lock.unlock();
    taken_.notify_one();
    if (const auto* failure = std::get_if<std::exception_ptr>(&loaded)) {
      std::rethrow_exception(*failure);
    }
    return std::get<Batch>(std::move(loaded));
  }

 private:
  using Loaded = std::variant<Batch, std::exception_ptr>;

  std::optional<Loaded>& slot_of(int64_t position) {
    return slots_[static_cast<size_t>(position) % slots_.size()];
  }

  void run(const std::stop_token& stop) {
    use_one_core();
    std::unique_lock lock(mutex_);
    const auto has_room = [this] {
      return next_to_load_ - next_to_take_ < static_cast<int64_t>(slots_.size());
    };
    while (taken_.wait(lock, stop, has_room) && !stop.stop_requested()) {
      const auto position = next_to_load_++;
      lock.unlock();
      auto loaded = load_or_fail(position);
      lock.lock();
      slot_of(position) = std::move(loaded);
      arrived_.notify_one();
    }
  }

  Loaded load_or_fail(int64_t position) const {
    try {
      return load_batch(source_, position);
    } catch (...) {
      return std::current_exception();
    }
  }

  const BatchSource& source_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable_any taken_;
  int64_t next_to_take_, next_to_load_;
  std::vector<std::optional<Loaded>> slots_;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

Loader::Loader(std::shared_ptr<const BatchSource> source, const LoaderOptions& options)
    : source_(std::move(source)), options_(options) {
  validate(options_);
}

Loader::~Loader() = default;

void Loader::seek(int64_t position) {
  require(position >= 0, "loader: position = {}, must be ≥ 0", position);
  if (position != position_) workers_.reset();
  position_ = position;
}

Batch Loader::next() {
  Batch batch;
  if (options_.workers == 0) {
    batch = load_batch(*source_, position_);
  } else {
    if (!workers_) workers_ = std::make_unique<Workers>(*source_, position_, options_);
    try {
      batch = workers_->take();
    } catch (...) {
      workers_.reset();
      throw;
    }
  }
  ++position_;
  return batch;
}

}  // namespace deq::lab

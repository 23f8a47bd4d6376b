#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <type_traits>

#include "replay/device_graph.h"

namespace deq {
namespace {

// What libraries do on their first calls (choose algorithms, take workspaces) must not be recorded.
constexpr int kWarmUps = 2;

/// torch warns of an empty graph, which is what a prepare() that has nothing to do makes.
struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

at::Generator generator_of(c10::DeviceIndex device) {
  return at::cuda::detail::getDefaultCUDAGenerator(device);
}

/// Ends what a capture has begun with torch's allocator of pinned memory, where it knows captures.
template <class HostAllocator>
void end_pinned_memory(HostAllocator& allocator, c10::MempoolId_t pool) {
  if constexpr (requires { allocator.end_allocate_to_pool(pool); }) {
    allocator.end_allocate_to_pool(pool);
  }
}

bool succeeds(const std::function<void()>& call) noexcept {
  try {
    call();
    return true;
  } catch (...) {
    return false;
  }
}

/// torch's capture, which also ends well where the work fails, and which lets other threads draw
/// random numbers where it can.
class Capture : public at::cuda::CUDAGraph {
 public:
  Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    succeeds([this] { leave_generator(); });
  }

  /// While torch's generator knows of a capture, it throws wherever another thread draws. Work that
  /// `draws` nothing need not tell it.
  void begin(c10::MempoolId_t pool, bool draws) {
    auto generator = generator_of(c10::cuda::current_device());
    const std::lock_guard nobody_draws(generator.mutex());
    // Threads that load data may go on allocating: only this one is watched.
    capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    if (!draws) tell_generator_of_end();
  }

  void end() {
    NoWarnings silent;
    const c10::WarningUtils::WarningHandlerGuard quiet(&silent);
    capture_end();
    if (!draws()) leave_generator();
  }

  /// Whether a replay draws random numbers.
  bool draws() const {
    return std::any_of(captured_generator_states_.begin(), captured_generator_states_.end(),
                       [](const auto& state) { return state.second > 0; });
  }

  /// torch's own end does none of this when the work has broken the capture.
  void abandon() noexcept {
    (void)cudaGetLastError();
    const bool ended = succeeds(
        [this] { c10::cuda::CUDACachingAllocator::endAllocateToPool(capture_dev_, mempool_id_); });
    // It would ask this capture, which will be gone, about every allocation.
    const bool pinned_ended =
        succeeds([this] { end_pinned_memory(*at::getHostAllocator(at::kCUDA), mempool_id_); });
    tell_generator_of_end();
    // The destructor gives the memory back to torch only where it takes the capture for ended.
    const bool has_pool = capture_id_ != 0 || (ended && pinned_ended);
    if (has_pool) capture_ended_ = true;
  }

 private:
  void tell_generator_of_end() noexcept {
    for (const auto& [state, increment] : captured_generator_states_) state->capturing_ = false;
  }

  /// A replay then tells it nothing, and needs no kernels for that.
  void leave_generator() {
    if (captured_generator_states_.empty()) return;
    auto generator = generator_of(capture_dev_);
    const std::lock_guard lock(generator.mutex());
    at::check_generator<at::CUDAGeneratorImpl>(generator)->unregister_graph(this);
    captured_generator_states_.clear();
  }
};

class CudaGraph final : public DeviceGraph {
 public:
  void record(const std::function<void()>& work, c10::MempoolId_t pool, bool draws) {
    std::exception_ptr failure;
    try {
      capture_.begin(pool, draws);
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    try {
      capture_.end();
    } catch (...) {
      capture_.abandon();
      if (!failure) failure = std::current_exception();
    }
    if (failure) std::rethrow_exception(failure);
    draws_ = capture_.draws();
  }

  void replay() override {
    if (!draws_) return capture_.replay();
    // One at a time: torch tells all graphs of a device by the same number where their random
    // numbers begin.
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    capture_.replay();
  }

  bool draws_random_numbers() const override { return draws_; }

 private:
  Capture capture_;
  bool draws_ = false;
};

/// Of the device's own generator: it grows with every number that is drawn.
uint64_t random_offset(c10::DeviceIndex device) {
  auto generator = generator_of(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_offset();
}

void let_wait(const c10::cuda::CUDAStream& waiting, const c10::cuda::CUDAStream& first) {
  at::cuda::CUDAEvent event;
  event.record(first);
  event.block(waiting);
}

/// A stream to record on, by one thread at a time.
struct RecordingStream {
  explicit RecordingStream(const c10::cuda::CUDAStream& own) : stream(own) {}
  c10::cuda::CUDAStream stream;
  std::mutex busy;
};

/// All that is recorded for one stream is recorded on one other: libraries keep a workspace for
/// each stream that they have seen, cuBLAS one of 32 MiB, and those stay. What is recorded while
/// another recording is prepared has that one's stream for its own, and so does not wait for it.
RecordingStream& recording_stream(c10::DeviceIndex device) {
  static std::mutex mutex;
  static std::map<std::pair<c10::DeviceIndex, c10::StreamId>, RecordingStream> streams;
  const std::lock_guard lock(mutex);
  const auto caller = c10::cuda::getCurrentCUDAStream(device);
  const auto key = std::pair(caller.device_index(), caller.id());
  auto found = streams.find(key);
  if (found == streams.end()) {
    // What runs beside it (side_by_side.h) comes second: the first part is the longest.
    const auto stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device);
    found = streams.try_emplace(key, stream).first;
  }
  return found->second;
}

class CudaRecorder final : public GraphRecorder {
 public:
  explicit CudaRecorder(const torch::Device& device)
      : recording_(recording_stream(device.index())), pool_(at::cuda::graph_pool_handle()) {}

  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    const std::lock_guard alone(recording_.busy);
    const auto& stream = recording_.stream;
    const auto caller = c10::cuda::getCurrentCUDAStream(stream.device_index());
    TORCH_CHECK(c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None,
                "the program records a CUDA graph of its own on this stream");
    let_wait(stream, caller);
    std::unique_ptr<CudaGraph> graph;
    {
      // Always the same stream: backward runs where forward ran.
      const c10::cuda::CUDAStreamGuard on_own_stream(stream);
      const auto before = random_offset(stream.device_index());
      for (int i = 0; i < kWarmUps; ++i) work();
      // By the work, or by another thread.
      const bool drawn = random_offset(stream.device_index()) != before;
      stream.synchronize();
      graph = capture(work, drawn);
    }
    let_wait(caller, stream);
    return graph;
  }

  void begin_own_memory() override { pool_ = at::cuda::graph_pool_handle(); }

 private:
  /// While work is captured that draws, other threads cannot: so it is tried without, first. A pool
  /// must not be taken up again once all of its captures are gone, so the first stays until the
  /// end.
  std::unique_ptr<CudaGraph> capture(const std::function<void()>& work, bool may_draw) {
    auto graph = std::make_unique<CudaGraph>();
    try {
      graph->record(work, pool_, /*draws=*/false);
      return graph;
    } catch (const c10::Error&) {
      if (!may_draw) throw;
    }
    auto drawing = std::make_unique<CudaGraph>();
    drawing->record(work, pool_, /*draws=*/true);
    return drawing;
  }

  RecordingStream& recording_;
  c10::MempoolId_t pool_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void deq_make_graph_recorder(
    const torch::Device& device, std::unique_ptr<GraphRecorder>& made) {
  made = std::make_unique<CudaRecorder>(device);
}

static_assert(std::is_same_v<decltype(deq_make_graph_recorder), MakeCudaGraphRecorder>);

}  // namespace deq

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
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

class CudaGraph final : public DeviceGraph {
 public:
  void record(const std::function<void()>& work, c10::MempoolId_t pool) {
    // Threads that load data may go on allocating: only this one is watched.
    capture_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    try {
      NoWarnings silent;
      const c10::WarningUtils::WarningHandlerGuard quiet(&silent);
      capture_.capture_end();
    } catch (...) {
      capture_.abandon();
      if (!failure) failure = std::current_exception();
    }
    if (failure) std::rethrow_exception(failure);
  }

  /// One at a time: torch tells all graphs of a device by the same number where their random
  /// numbers begin.
  void replay() override {
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    capture_.replay();
  }

 private:
  struct Capture : at::cuda::CUDAGraph {
    /// torch's own end does none of this when the work has broken the capture.
    void abandon() noexcept {
      (void)cudaGetLastError();
      try {
        c10::cuda::CUDACachingAllocator::endAllocateToPool(capture_dev_, mempool_id_);
      } catch (...) {
      }
      for (const auto& [state, increment] : captured_generator_states_) state->capturing_ = false;
    }
  };

  Capture capture_;
};

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
    let_wait(stream, caller);
    auto graph = std::make_unique<CudaGraph>();
    {
      // Always the same stream: backward runs where forward ran.
      const c10::cuda::CUDAStreamGuard on_own_stream(stream);
      for (int i = 0; i < kWarmUps; ++i) work();
      stream.synchronize();
      graph->record(work, pool_);
    }
    let_wait(caller, stream);
    return graph;
  }

  void begin_own_memory() override { pool_ = at::cuda::graph_pool_handle(); }

 private:
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

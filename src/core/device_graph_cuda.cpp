#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>
#include <type_traits>

#include "core/device_graph.h"

namespace deq {
namespace {

// What libraries do on their first calls (choose algorithms, take workspaces) must not be recorded.
constexpr int kWarmUps = 2;

class CudaGraph final : public DeviceGraph {
 public:
  void record(const std::function<void()>& work, c10::MempoolId_t pool) {
    // Threads that load data may go on allocating: only this one is watched.
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      end_quietly();
      throw;
    }
    graph_.capture_end();
  }

  void replay() override { graph_.replay(); }

 private:
  /// The work has failed, and its own exception says why.
  void end_quietly() noexcept {
    try {
      graph_.capture_end();
    } catch (...) {
    }
  }

  at::cuda::CUDAGraph graph_;
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

#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>

namespace deq {

/// Work that a device repeats on the same memory without being told its parts again.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  virtual ~DeviceGraph() = default;

  /// Enqueues the work on the current stream.
  virtual void replay() = 0;

  /// Whether a replay draws some of the device's own generator; one that cannot tell says so too.
  virtual bool draws_random_numbers() const { return true; }
};

/// Records graphs that share their memory: one may use what nobody holds any more of those recorded
/// before it, and replaying one spoils what was recorded after it. So they are replayed in the
/// order in which they were recorded.
class GraphRecorder {
 public:
  GraphRecorder() = default;
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;
  virtual ~GraphRecorder() = default;

  /// Keeps what `work` enqueues, which is called several times for it. Tensors that the last call
  /// makes, and that somebody holds, are where a replay leaves its results. Throws where the work
  /// cannot be recorded, e.g. because it waits for the device.
  virtual std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) = 0;

  /// What is recorded from now on has memory of its own, apart from all before: replaying those
  /// does not touch it.
  virtual void begin_own_memory() = 0;
};

using MakeGraphRecorder = std::unique_ptr<GraphRecorder>(const torch::Device& device);

/// Whether this device has graphs.
bool records_graphs(const torch::Device& device);

/// A recorder for a device that has graphs.
std::unique_ptr<GraphRecorder> make_graph_recorder(const torch::Device& device);

/// For tests: recorders come from `make` from now on; nullptr restores the device's own.
void replace_graph_recorders(MakeGraphRecorder* make);

/// The CUDA plugin's, by the name deq_make_graph_recorder.
using MakeCudaGraphRecorder = void(const torch::Device& device,
                                   std::unique_ptr<GraphRecorder>& made);

}  // namespace deq

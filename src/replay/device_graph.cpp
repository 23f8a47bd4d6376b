#include "replay/device_graph.h"

#include <dlfcn.h>

#include <atomic>

namespace deq {
namespace {

std::atomic<MakeGraphRecorder*> replacement = nullptr;

/// Whoever has a tensor on a GPU may still work without the plugin: then nothing is recorded.
MakeCudaGraphRecorder* cuda_recorders() {
  static auto* const make =
      reinterpret_cast<MakeCudaGraphRecorder*>(dlsym(RTLD_DEFAULT, "deq_make_graph_recorder"));
  return make;
}

}  // namespace

bool records_graphs(const torch::Device& device) {
  return replacement.load() != nullptr || (device.is_cuda() && cuda_recorders() != nullptr);
}

std::unique_ptr<GraphRecorder> make_graph_recorder(const torch::Device& device) {
  if (auto* const make = replacement.load()) return make(device);
  std::unique_ptr<GraphRecorder> made;
  cuda_recorders()(device, made);
  return made;
}

void replace_graph_recorders(MakeGraphRecorder* make) {
  replacement = make;
}

}  // namespace deq

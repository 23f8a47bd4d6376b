#include "support/counted_recorders.h"

#include <dlfcn.h>

#include <atomic>

#include "support/freezing_recorder.h"

namespace deq::test {
namespace {

std::atomic<int> counted_graphs = 0;

class CountingRecorder final : public GraphRecorder {
 public:
  explicit CountingRecorder(std::unique_ptr<GraphRecorder> inner) : inner_(std::move(inner)) {}

  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    auto graph = inner_->record(work);
    ++counted_graphs;
    return graph;
  }
  void begin_own_memory() override { inner_->begin_own_memory(); }

 private:
  std::unique_ptr<GraphRecorder> inner_;
};

std::unique_ptr<GraphRecorder> count_freezing(const torch::Device&) {
  return std::make_unique<CountingRecorder>(make_freezing_recorder());
}

std::unique_ptr<GraphRecorder> count_cuda(const torch::Device& device) {
  auto* const make =
      reinterpret_cast<MakeCudaGraphRecorder*>(dlsym(RTLD_DEFAULT, "deq_make_graph_recorder"));
  std::unique_ptr<GraphRecorder> made;
  make(device, made);
  return std::make_unique<CountingRecorder>(std::move(made));
}

}  // namespace

CountedRecorders::CountedRecorders(const torch::Device& device) {
  counted_graphs = 0;
  replace_graph_recorders(device.is_cuda() ? count_cuda : count_freezing);
}

CountedRecorders::~CountedRecorders() {
  replace_graph_recorders(nullptr);
}

int CountedRecorders::graphs() const {  // NOLINT(readability-convert-member-functions-to-static)
  return counted_graphs;
}

}  // namespace deq::test

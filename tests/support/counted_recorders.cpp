#include "support/counted_recorders.h"

#include <dlfcn.h>

#include <atomic>
#include <stdexcept>

#include "support/freezing_recorder.h"

namespace deq::test {
namespace {

std::atomic<int> counted_graphs = 0, failing_graph = 0;

class CountingRecorder final : public GraphRecorder {
 public:
  CountingRecorder(std::unique_ptr<GraphRecorder> inner, int warm_ups)
      : inner_(std::move(inner)), warm_ups_(warm_ups) {}

  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    const int number = counted_graphs + 1;
    int calls = 0;
    auto graph = inner_->record([&] {
      work();
      if (number == failing_graph && ++calls > warm_ups_) {
        throw std::runtime_error("this graph is to fail");
      }
    });
    ++counted_graphs;
    return graph;
  }
  void begin_own_memory() override { inner_->begin_own_memory(); }

 private:
  std::unique_ptr<GraphRecorder> inner_;
  int warm_ups_;  // calls of the work before the one that is recorded
};

std::unique_ptr<GraphRecorder> make_cuda_recorder(const torch::Device& device) {
  auto* const make =
      reinterpret_cast<MakeCudaGraphRecorder*>(dlsym(RTLD_DEFAULT, "deq_make_graph_recorder"));
  std::unique_ptr<GraphRecorder> made;
  make(device, made);
  return made;
}

std::unique_ptr<GraphRecorder> make_counting_recorder(const torch::Device& device) {
  if (device.is_cuda()) return std::make_unique<CountingRecorder>(make_cuda_recorder(device), 2);
  return std::make_unique<CountingRecorder>(make_freezing_recorder(), 1);
}

}  // namespace

CountedRecorders::CountedRecorders() {
  counted_graphs = 0;
  failing_graph = 0;
  replace_graph_recorders(make_counting_recorder);
}

CountedRecorders::~CountedRecorders() {
  replace_graph_recorders(nullptr);
}

// NOLINTNEXTLINE(readability-convert-member-functions-to-static)
void CountedRecorders::fail_at(int graph) {
  failing_graph = graph;
}

int CountedRecorders::graphs() const {  // NOLINT(readability-convert-member-functions-to-static)
  return counted_graphs;
}

}  // namespace deq::test

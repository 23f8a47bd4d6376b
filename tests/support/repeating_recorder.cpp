#include "support/repeating_recorder.h"

namespace deq::test {
namespace {

int recorded_graphs = 0;

class RepeatedWork final : public DeviceGraph {
 public:
  explicit RepeatedWork(std::function<void()> work) : work_(std::move(work)) {}
  void replay() override { work_(); }

 private:
  std::function<void()> work_;
};

class RepeatingRecorder final : public GraphRecorder {
 public:
  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    work();
    ++recorded_graphs;
    return std::make_unique<RepeatedWork>(work);
  }
  void begin_own_memory() override {}
};

}  // namespace

RepeatingRecorders::RepeatingRecorders() {
  recorded_graphs = 0;
  replace_graph_recorders([](const torch::Device&) -> std::unique_ptr<GraphRecorder> {
    return std::make_unique<RepeatingRecorder>();
  });
}

RepeatingRecorders::~RepeatingRecorders() {
  replace_graph_recorders(nullptr);
}

int RepeatingRecorders::graphs() const {  // NOLINT(readability-convert-member-functions-to-static)
  return recorded_graphs;
}

}  // namespace deq::test

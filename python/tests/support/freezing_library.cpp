// Lets the CPU record graphs in a Python process: python/tests/test_replay.py loads it.

#include "replay/device_graph.h"
#include "support/freezing_recorder.h"

extern "C" void deq_record_on_the_cpu(bool record) {
  deq::MakeGraphRecorder* const make = [](const torch::Device&) {
    return deq::test::make_freezing_recorder();
  };
  deq::replace_graph_recorders(record ? make : nullptr);
}

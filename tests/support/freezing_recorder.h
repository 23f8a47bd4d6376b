#pragma once

#include <memory>

#include "replay/device_graph.h"

namespace deq::test {

/// Records graphs on the CPU. Like those of a GPU they repeat the operations that the work called,
/// with the numbers and the memory that these were called with: what the work would do now, another
/// branch or another number of the host, does not reach them.
std::unique_ptr<GraphRecorder> make_freezing_recorder();

}  // namespace deq::test

#pragma once

#include "replay/device_graph.h"

namespace deq::test {

/// While it lives, graphs that are recorded are counted: a GPU's own, or on the CPU freezing ones.
class CountedRecorders {
 public:
  explicit CountedRecorders(const torch::Device& device);
  ~CountedRecorders();
  CountedRecorders(const CountedRecorders&) = delete;
  CountedRecorders& operator=(const CountedRecorders&) = delete;

  int graphs() const;  ///< recorded so far
};

}  // namespace deq::test

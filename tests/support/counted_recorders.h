#pragma once

#include "replay/device_graph.h"

namespace deq::test {

/// While it lives, graphs that are recorded are counted: on a GPU its own, on the CPU freezing
/// ones.
class CountedRecorders {
 public:
  CountedRecorders();
  ~CountedRecorders();
  CountedRecorders(const CountedRecorders&) = delete;
  CountedRecorders& operator=(const CountedRecorders&) = delete;

  int graphs() const;  ///< recorded so far

  /// The recording of this one breaks off at its end, whenever it is tried; 1 is the first.
  void fail_at(int graph);
};

}  // namespace deq::test

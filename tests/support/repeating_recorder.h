#pragma once

#include "core/device_graph.h"

namespace deq::test {

/// While it lives, "graphs" are recorded on every device; they repeat their work on the host.
class RepeatingRecorders {
 public:
  RepeatingRecorders();
  ~RepeatingRecorders();
  RepeatingRecorders(const RepeatingRecorders&) = delete;
  RepeatingRecorders& operator=(const RepeatingRecorders&) = delete;

  int graphs() const;  ///< recorded so far
};

}  // namespace deq::test

#pragma once

#include <functional>

namespace deq::lab {

/// Comes out of work that was given up. No std::exception: a recording would take one for a
/// refusal.
struct GivenUp {};

/// While one exists, what solves on this thread, and whatever calls check_interruption(), throws
/// GivenUp as soon as `asked` gives anything but 0. Only one may exist at a time.
class GiveUpWhenAsked {
 public:
  explicit GiveUpWhenAsked(std::function<int()> asked);
  ~GiveUpWhenAsked();
  GiveUpWhenAsked(const GiveUpWhenAsked&) = delete;
  GiveUpWhenAsked& operator=(const GiveUpWhenAsked&) = delete;
};

}  // namespace deq::lab

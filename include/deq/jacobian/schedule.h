#pragma once

#include <cstdint>
#include <optional>
#include <variant>

namespace deq {

struct ConstantSchedule {
  double value = 0;
};

/// `from` until step `begin`, `to` from step `end` on, linear in between. begin ≤ end.
struct LinearSchedule {
  double from = 0, to = 0;
  int64_t begin = 0, end = 1;
};

/// start + increment·⌊step / every⌋, every ≥ 1.
struct StaircaseSchedule {
  double start = 0, increment = 0;
  int64_t every = 1;
};

/// A number that depends on the training step.
struct Schedule {
  std::variant<ConstantSchedule, LinearSchedule, StaircaseSchedule> shape = ConstantSchedule{};
  std::optional<int64_t> stop{};  ///< 0 from this step on

  double at(int64_t step) const;
};

/// Throws Error unless the schedule is well-formed.
void validate(const Schedule& schedule);

}  // namespace deq

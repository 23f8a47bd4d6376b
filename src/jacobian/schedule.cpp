#include "deq/jacobian/schedule.h"

#include <algorithm>

#include "core/require.h"

namespace deq {
namespace {

double value_at(const ConstantSchedule& s, int64_t) {
  return s.value;
}

double value_at(const LinearSchedule& s, int64_t step) {
  if (step >= s.end) return s.to;
  const auto passed = static_cast<double>(std::max<int64_t>(step - s.begin, 0));
  return s.from +
         (s.to - s.from) * passed / static_cast<double>(std::max<int64_t>(s.end - s.begin, 1));
}

double value_at(const StaircaseSchedule& s, int64_t step) {
  const int64_t stairs = step / s.every;
  return s.start + s.increment * static_cast<double>(stairs);
}

}  // namespace

double Schedule::at(int64_t step) const {
  if (stop && step >= *stop) return 0.0;
  return std::visit([step](const auto& s) { return value_at(s, step); }, shape);
}

void validate(const Schedule& schedule) {
  if (const auto* linear = std::get_if<LinearSchedule>(&schedule.shape)) {
    require(linear->begin >= 0 && linear->begin <= linear->end,
            "linear schedule: begin = {}, end = {}, must be 0 ≤ begin ≤ end", linear->begin,
            linear->end);
  }
  if (const auto* staircase = std::get_if<StaircaseSchedule>(&schedule.shape)) {
    require(staircase->every >= 1, "staircase schedule: every = {}, must be ≥ 1", staircase->every);
  }
  if (schedule.stop) {
    require(*schedule.stop >= 0, "schedule: stop = {}, must be ≥ 0", *schedule.stop);
  }
}

}  // namespace deq

#pragma once

#include <string_view>
#include <variant>

#include "deq/jacobian/schedule.h"
#include "lab/config/description.h"

namespace deq::lab::config {

using ScheduleShape = decltype(Schedule::shape);

template <>
struct Alternatives<ScheduleShape> {
  static std::string_view name(const ScheduleShape& shape) {
    constexpr std::string_view kNames[] = {"constant", "linear", "staircase"};
    static_assert(std::size(kNames) == std::variant_size_v<ScheduleShape>);
    return kNames[shape.index()];
  }
  static void carry_over(const ScheduleShape&, ScheduleShape&) {}
};

template <class Visitor>
void describe_own(Visitor& v, ConstantSchedule& shape, const Range& range) {
  v.number("value", shape.value, range, "The value at every step.", Presence::Required);
}

template <class Visitor>
void describe_own(Visitor& v, LinearSchedule& shape, const Range& range) {
  v.number("from", shape.from, range, "The value until step begin.", Presence::Required);
  v.number("to", shape.to, range, "The value from step end on.", Presence::Required);
  v.number("begin", shape.begin, at_least(0), "The step at which it leaves from.",
           Presence::Required);
  v.number("end", shape.end, at_least(0), "The step at which it reaches to.", Presence::Required);
  v.in_order("begin", shape.begin, Relation::AtMost, "end", shape.end);
}

template <class Visitor>
void describe_own(Visitor& v, StaircaseSchedule& shape, const Range& range) {
  v.number("start", shape.start, range, "The value at step 0.", Presence::Required);
  v.number("increment", shape.increment, range, "What each stair adds.", Presence::Required);
  v.number("every", shape.every, at_least(1), "The length of a stair, in steps.",
           Presence::Required);
}

/// `range` is that of the scheduled value.
template <class Visitor>
void describe_schedule(Visitor& v, Schedule& schedule, const Range& range) {
  v.select("schedule", schedule.shape, "How the value depends on the training step.",
           Presence::Required);
  v.alternatives("schedule", schedule.shape,
                 [&range](auto& inner, auto& shape) { describe_own(inner, shape, range); });
  v.optional_number("stop", schedule.stop, at_least(0), "From this step on the value is 0.");
}

}  // namespace deq::lab::config

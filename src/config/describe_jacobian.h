#pragma once

#include <string_view>

#include "config/description.h"
#include "deq/config/parts.h"

namespace deq::config {

using ScheduleShape = decltype(Schedule::shape);

inline constexpr Choice<ProbeDistribution> kProbeDistributions[] = {
    {"gaussian", ProbeDistribution::Gaussian}, {"rademacher", ProbeDistribution::Rademacher}};

inline constexpr Choice<Held> kHeld[] = {{"nothing", Held::Nothing},
                                         {"rho", Held::SpectralRadius},
                                         {"residual", Held::Residual},
                                         {"nfe_forward", Held::ForwardEvaluations}};

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

template <class Visitor>
void describe(Visitor& v, GammaControl& control) {
  v.choice("hold", control.hold, kHeld,
           "What is held at the target by steering gamma, which starts at jacobian.gamma.");
  v.number("target", control.target, above(0), "The value that it is to have.");
  v.number("min", control.min, above(0), "The smallest gamma.");
  v.number("max", control.max, above(0), "The largest gamma.");
  v.in_order("min", control.min, Relation::AtMost, "max", control.max);
  v.number("gain", control.gain, above(0),
           "How strongly log gamma answers to the logarithm of measured over target.");
  v.number("trend_gain", control.trend_gain, at_least(0),
           "How strongly it answers to the logarithm of the measured value's change.");
  v.number("smoothing", control.smoothing, from_to_below(0, 1),
           "The weight of the past in what is measured.");
  v.number("every", control.every, at_least(1), "Steps from one adjustment to the next.");
}

template <class Visitor>
void describe(Visitor& v, JacobianConfig& config) {
  v.schedule("gamma", config.gamma, at_least(0), "The weight of the penalty ‖J‖²_F/D; 0 is none.");
  v.schedule("probability", config.probability, between(0, 1),
             "How likely a training step is to apply the penalty.");
  v.number("probes", config.estimator.probes, at_least(1), "Random vectors an estimate.");
  v.choice("distribution", config.estimator.distribution, kProbeDistributions,
           "What the random vectors are drawn from.");
  v.optional_number("stop_epoch", config.stop_epoch, at_least(1),
                    "From the end of this epoch on there is no penalty.");
  v.table("control", config.control, "An adaptive gamma.");
}

}  // namespace deq::config

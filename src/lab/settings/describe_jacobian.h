#pragma once

#include <string_view>

#include "deq/lab/settings/parts.h"
#include "lab/config/schedule.h"

namespace deq::lab::config {

inline constexpr Choice<ProbeDistribution> kProbeDistributions[] = {
    {"gaussian", ProbeDistribution::Gaussian}, {"rademacher", ProbeDistribution::Rademacher}};

inline constexpr Choice<Held> kHeld[] = {{"nothing", Held::Nothing},
                                         {"rho", Held::SpectralRadius},
                                         {"residual", Held::Residual},
                                         {"nfe_forward", Held::ForwardEvaluations}};

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
  v.schedule("gamma", config.gamma, at_least(0), "The weight of the penalty; 0 is none.");
  v.schedule("probability", config.probability, between(0, 1),
             "How likely a training step is to apply the penalty.");
  v.number("probes", config.estimator.probes, at_least(1), "Random vectors an estimate.");
  v.choice("distribution", config.estimator.distribution, kProbeDistributions,
           "What the random vectors are drawn from.");
  v.number("power_steps", config.power_steps, between(0, 1'000),
           "Products with J that turn each random vector before it is used: 0 penalises ‖J‖²_F/D, "
           "more penalise the spectral radius, with another gamma.");
  v.optional_number("stop_epoch", config.stop_epoch, between(1, 1e9),
                    "From the end of this epoch on there is no penalty.");
  v.table("control", config.control, "An adaptive gamma.");
}

}  // namespace deq::lab::config

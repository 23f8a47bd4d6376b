#pragma once

#include <string_view>

#include "deq/lab/settings/parts.h"
#include "lab/config/description.h"

namespace deq::lab::config {

template <>
struct Alternatives<GradientConfig> {
  static std::string_view name(const GradientConfig& gradient) {
    return gradient_name(gradient_options(gradient, SolverOptions{}));
  }
  static void carry_over(const GradientConfig&, GradientConfig&) {}
};

template <class Visitor>
void describe_own(Visitor&, ImplicitGradient&) {}

template <class Visitor>
void describe_own(Visitor& v, Truncated& gradient) {
  v.number("terms", gradient.terms, at_least(0),
           "Products with the Jacobian in the Neumann series.");
}

template <class Visitor>
void describe_own(Visitor&, JacobianFree&) {}

template <class Visitor>
void describe_own(Visitor& v, ShineGradient& gradient) {
  v.number("fallback", gradient.fallback, above(0),
           "Where the vector from the forward solve's inverse is longer than so many times the "
           "loss's gradient, that gradient is taken.");
  v.flag("refined", gradient.refined,
         "Whether [solver.adjoint] goes on from that vector, rather than from 0.");
}

template <class Visitor>
void describe_own(Visitor& v, Phantom& gradient) {
  v.number("steps", gradient.steps, at_least(1),
           "Damped steps from z* that are backpropagated through.");
  v.number("tau", gradient.tau, above_up_to(0, 1), "The damping: z ← (1 − tau) z + tau f(z).");
}

template <class Visitor>
void describe_own(Visitor& v, UnrolledGradient& gradient) {
  v.number("steps", gradient.steps, at_least(1), "Plain steps from z₀ that replace the solver.");
  v.number("backpropagated", gradient.backpropagated, at_least(0),
           "Only through the last so many of them, steps at most; 0: through all.");
  v.in_order("backpropagated", gradient.backpropagated, Relation::AtMost, "steps", gradient.steps);
  v.number("spread", gradient.spread, between(0, 2),
           "Above 0, a training step takes n ~ Poisson(tau) steps, at least 1, where ln tau is "
           "normal with this standard deviation and tau is `steps` in the mean.");
}

template <class Visitor>
void describe_own(Visitor& v, Reversible& gradient) {
  v.number("steps", gradient.steps, at_least(1),
           "Steps of two evaluations from z₀ that replace the solver, and are undone on the way "
           "back.");
  v.number("beta", gradient.beta, strictly_between(0, 1),
           "How much of f a step takes: y ← (1 − beta) y + beta f(z), then z likewise from y. "
           "Each step undone loses a factor of 1/(1 − beta)² in precision.");
}

template <class Visitor>
void describe(Visitor& v, GradientConfig& gradient) {
  v.select("name", gradient, "How the gradient passes the equilibrium; implicit is the exact one.");
  v.alternatives("name", gradient, [](auto& inner, auto& chosen) { describe_own(inner, chosen); });
}

}  // namespace deq::lab::config

#pragma once

#include <string_view>

#include "deq/lab/settings/parts.h"
#include "lab/config/description.h"

namespace deq::lab::config {

inline constexpr Choice<NormScope> kNormScopes[] = {{"per-sample", NormScope::PerSample},
                                                    {"whole-batch", NormScope::WholeBatch}};
inline constexpr Choice<RidgeScale> kRidgeScales[] = {{"relative", RidgeScale::Relative},
                                                      {"absolute", RidgeScale::Absolute}};
inline constexpr Choice<Replay> kReplays[] = {
    {"automatic", Replay::Automatic}, {"off", Replay::Off}, {"checked", Replay::Checked}};

template <>
struct Alternatives<SolverOptions> {
  static std::string_view name(const SolverOptions& options) { return solver_name(options); }

  /// All that every solver has.
  static void carry_over(const SolverOptions& from, SolverOptions& to) {
    to = with_max_evals(with_tolerance(to, tolerance(from)), max_evals(from));
    std::visit([&from](auto& solver) { solver.guards = guards(from); }, to);
  }
};

template <class Visitor, class AnySolver>
void describe_shared(Visitor& v, AnySolver& solver) {
  v.number("max_evals", solver.max_evals, at_least(1),
           "The budget of evaluations of f, that at the start, trial points and probes included.");
  v.number("rtol", solver.tol.rtol, at_least(0),
           "An iterate z has converged at ‖f(z) − z‖ ≤ atol + rtol·‖f(z)‖.");
  v.number("atol", solver.tol.atol, at_least(0), "The absolute part of the tolerance.");
  v.choice("norm", solver.tol.scope, kNormScopes,
           "Whether each sample converges by itself or the batch as one.");
  v.number("stagnation_window", solver.guards.stagnation_window, between(0, 100'000),
           "Gives up when this many iterates in a row gain less than 1%; 0 never does.");
  v.number("divergence_factor", solver.guards.divergence_factor, above(1),
           "Gives up when the residual exceeds this many times its first value.");
}

template <class Visitor>
void describe_own(Visitor& v, Picard& solver) {
  v.number("damping", solver.damping, above_up_to(0, 1),
           "The fraction of f(z) − z that a step takes.");
}

template <class Visitor>
void describe_own(Visitor& v, Anderson& solver) {
  v.number("memory", solver.memory, at_least(1), "How many iterates are combined.");
  v.number("beta", solver.beta, above_up_to(0, 1), "The mixing of residuals into the combination.");
  v.number("ridge", solver.ridge, at_least(0), "The Tikhonov term of the small linear system.");
  v.choice("ridge_scale", solver.ridge_scale, kRidgeScales,
           "Whether the ridge is relative to the Gram matrix or stands by itself.");
  v.number("restart_factor", solver.restart_factor, above(1),
           "A residual this many times the best one restarts the history.");
}

template <class Visitor>
void describe_own(Visitor& v, Broyden& solver) {
  v.number("memory", solver.memory, at_least(1),
           "How many updates fit before the history restarts.");
  v.flag("line_search", solver.line_search,
         "Whether to backtrack while a step does not lower the residual.");
  v.flag("bfloat16_steps", solver.bfloat16_steps,
         "Whether a GPU keeps the steps in bfloat16: half the memory, less to read.");
}

template <class Visitor>
void describe_own(Visitor& v, LimitedBroyden& solver) {
  v.number("memory", solver.memory, at_least(1), "How many of the last updates are kept.");
}

template <class Visitor>
void describe_own(Visitor& v, NewtonKrylov& solver) {
  v.number("krylov_dim", solver.krylov_dim, at_least(1),
           "The most GMRES vectors of a linear solve.");
  v.number("forcing", solver.forcing, from_to_below(0, 1),
           "GMRES stops when it has reduced its residual to this fraction.");
}

template <class Visitor>
void describe(Visitor& v, SolverOptions& options) {
  v.select("name", options, "The method.");
  std::visit([&v](auto& solver) { describe_shared(v, solver); }, options);
  v.alternatives("name", options, [](auto& inner, auto& solver) { describe_own(inner, solver); });
}

template <class Visitor>
void describe(Visitor& v, SolverConfig& config) {
  v.flag("one_more_step", config.one_more_step,
         "Whether a training step goes on with f(z*), which the gradient evaluates anyway, as the "
         "paper's code does, rather than with z*.");
  v.number(
      "float32_evals", config.float32_evals, at_least(0),
      "With precision = \"bfloat16\", outside of training: the most evaluations in float32 with "
      "which a solve goes on until it has converged.");
  v.choice("replay", config.replay, kReplays,
           "Whether passes on a GPU are recorded and replayed. \"checked\" evaluates them too and "
           "stops where the two differ: for finding errors, at several times the cost.");
  v.table("forward", config.forward, "Finds the equilibrium z* = f(z*).");
  v.table("adjoint", config.adjoint,
          "Solves the linear system of the implicit gradient, whose f(u) is uJ + g, from u = 0, "
          "where f is known: an evaluation is a product with J.");
}

}  // namespace deq::lab::config

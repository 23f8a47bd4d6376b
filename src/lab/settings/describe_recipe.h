#pragma once

#include "deq/lab/settings/recipe.h"
#include "lab/config/description.h"
#include "lab/settings/describe_gradient.h"
#include "lab/settings/describe_jacobian.h"
#include "lab/settings/describe_solver.h"
#include "lab/settings/describe_train.h"
#include "lab/settings/experiment_names.h"

namespace deq::lab::config {

inline constexpr Choice<Precision> kPrecisions[] = {{"float32", Precision::Float32},
                                                    {"tf32", Precision::TensorFloat32},
                                                    {"bfloat16", Precision::BFloat16},
                                                    {"float64", Precision::Float64}};

/// The plain keys, which come before all tables.
template <class Visitor>
void describe_top(Visitor& v, Recipe& recipe, std::string_view experiment) {
  v.constant(kExperimentKey, experiment, "Which experiment the file is.");
  v.number("seed", recipe.seed, at_least(0),
           "Fixes everything random: data, weights, order, probes.");
  v.choice("precision", recipe.precision, kPrecisions,
           "What is computed in; with bfloat16 only matrix products and convolutions are.");
}

template <class Visitor>
void describe_tables(Visitor& v, Recipe& recipe) {
  v.table("solver", recipe.solver, "How the equilibrium and its gradient are solved for.");
  v.table("gradient", recipe.gradient, "How the gradient is made.");
  v.table("jacobian", recipe.jacobian, "The Jacobian penalty.");
  v.table("train", recipe.train, "The training loop.");
}

}  // namespace deq::lab::config

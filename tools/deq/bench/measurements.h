#pragma once

#include <string>
#include <vector>

#include "bench/arguments.h"
#include "bench/subject.h"

namespace deq::lab::cli {

/// Measures a model's passes, prints the result, and writes it where the arguments say.
void bench_model(EquilibriumSubject& subject, const BenchArguments& arguments);

/// The same for a model that is trained by segments: a few recursions, of which the last is
/// backpropagated through.
void bench_segments(EquilibriumSubject& subject, const BenchArguments& arguments);

/// A network without an equilibrium.
struct ExplicitNetwork {
  std::string name{};
  std::vector<std::string> overrides{};  ///< "key=value", over its configuration
};

/// The names that there are, with commas between them.
std::string explicit_names();

/// The same for such a network. Throws UsageError for another name.
void bench_explicit(const ExplicitNetwork& network, const BenchArguments& arguments);

/// The same for what the solvers themselves cost.
void bench_solvers(const BenchArguments& arguments);

}  // namespace deq::lab::cli

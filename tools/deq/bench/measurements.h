#pragma once

#include "bench/arguments.h"
#include "bench/subject.h"

namespace deq::lab::cli {

/// Measures a model's passes, prints the result, and writes it where the arguments say.
void bench_model(Subject& subject, const BenchArguments& arguments);

/// The same for a model that is trained by segments: a few recursions, of which the last is
/// backpropagated through.
void bench_segments(Subject& subject, const BenchArguments& arguments);

/// The same for what the solvers themselves cost.
void bench_solvers(const BenchArguments& arguments);

}  // namespace deq::lab::cli

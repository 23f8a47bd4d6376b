#pragma once

#include "bench/arguments.h"
#include "bench/subject.h"

namespace deq::cli {

/// Measures a model's passes, prints what came out, and writes it where the arguments say.
void bench_model(Subject& subject, const BenchArguments& arguments);

}  // namespace deq::cli

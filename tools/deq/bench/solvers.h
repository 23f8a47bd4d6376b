#pragma once

#include "bench/arguments.h"

namespace deq::cli {

/// Measures what the solvers themselves cost, and tells as bench_model does.
void bench_solvers(const BenchArguments& arguments);

}  // namespace deq::cli

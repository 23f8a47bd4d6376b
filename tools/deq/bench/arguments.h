#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "deq/core/precision.h"
#include "deq/solvers/options.h"

namespace deq::lab::cli {

struct BenchArguments {
  std::string device = "cpu", solver = "broyden", json{}, trace{};
  Precision precision = Precision::Float32;
  int64_t batch = 0, repeats = 10;
  bool pre_ln = false;  // of transformer
  int64_t inference = 6, forward = 7, adjoint = 8;
  int64_t dim = 61440;  // of solvers
};

/// With a tolerance that is never met: exactly this many evaluations.
SolverOptions bench_solver(const std::string& name, int64_t evaluations, double rtol = 0);

/// The type of a precision's products.
torch::ScalarType product_type(Precision precision);

/// The option --json, refused before the measuring where no such file can be written.
void add_json_file(CLI::App& command, std::string& path);

void write_bench_json(const nlohmann::ordered_json& result, const BenchArguments& arguments);

}  // namespace deq::lab::cli

#include "bench/arguments.h"

#include "deq/lab/io/atomic_file.h"
#include "output_file.h"

namespace deq::lab::cli {

SolverOptions bench_solver(const std::string& name, int64_t evaluations, double rtol) {
  const Tolerance never{.rtol = rtol};
  if (name.starts_with("broyden")) {
    const bool half = name == "broyden-bfloat16";
    return Broyden{.bfloat16_steps = half, .tol = never, .max_evals = evaluations};
  }
  if (name == "anderson") return Anderson{.tol = never, .max_evals = evaluations};
  return Picard{.tol = never, .max_evals = evaluations};
}

torch::ScalarType product_type(Precision precision) {
  return precision == Precision::BFloat16 ? torch::kBFloat16 : storage_type(precision);
}

void add_json_file(CLI::App& command, std::string& path) {
  command.add_option("--json", path, "also write the numbers to this file")
      ->each([](const std::string& given) { require_writable("--json", given); });
}

void write_bench_json(const nlohmann::ordered_json& result, const BenchArguments& arguments) {
  if (!arguments.json.empty()) write_file_atomically(arguments.json, result.dump(2) + "\n");
}

}  // namespace deq::lab::cli

#include <fmt/format.h>

#include <iostream>

#include "bench/measurements.h"
#include "bench/passes.h"
#include "bench/stopwatch.h"
#include "trace.h"

namespace deq::lab::cli {
namespace {

using Json = nlohmann::ordered_json;

EquilibriumPlan inference_plan(int64_t recursions) {
  return EquilibriumOptions{.forward = bench_solver("picard", recursions),
                            .gradient = JacobianFree{}};
}

/// As training has it: replayed where there is no penalty, else evaluated.
EquilibriumPlan training_plan(int64_t recursions, bool replayed) {
  return EquilibriumOptions{
      .forward = bench_solver("picard", recursions),
      .gradient = Unrolled{
          .steps = recursions, .backpropagated = 1, .replayed = replayed, .measured = false}};
}

Json measured(EquilibriumSubject& subject, const BenchArguments& arguments) {
  Passes passes(subject, arguments);
  const auto& device = passes.device();
  Trace trace(arguments.trace);  // refused before the measuring, if at all
  const TensorFloat32Scope products(arguments.precision, device);
  const auto ceilings = measure_ceilings(device, product_type(arguments.precision));
  const auto n = arguments.forward;
  const auto inference = inference_plan(n), training = training_plan(n, /*replayed=*/true);
  const auto evaluated = training_plan(n, /*replayed=*/false);
  const double flops = subject.flops_of_f();
  Json result{{"subject", subject.name()}, {"device", instructions_of(device)}};
  const auto add = [&](const std::string& what, int64_t evaluations, double ms, double mib) {
    const double all = static_cast<double>(evaluations) * flops;
    result[what + "_ms"] = ms;
    result[what + "_mib"] = mib;
    result[what + "_flops"] = all;
    result[what + "_flops_per_s"] = all / (1e-3 * ms);
  };
  // Backward has two products for each of the last recursion's.
  const auto add_step = [&](const std::string& what, const EquilibriumPlan& how) {
    const double ms = passes.step_ms(how);
    add(what, n + 2, ms, passes.peak_mib([&] { passes.train(how); }));
  };
  result["recursions"] = n;
  add_step("step_evaluated", evaluated);  // before graphs are recorded, whose memory stays
  const double ms = passes.inference_ms(inference);
  add("inference", n, ms, passes.peak_mib([&] { passes.infer(inference); }));
  add_step("step", training);
  result["ceiling_flops_per_s"] = ceilings.flops;
  result["bytes_of_f"] = passes.bytes_of_f(inference_plan(1));
  result["ceiling_bytes_per_s"] = ceilings.bytes;
  if (trace.asked_for()) {
    trace.begin(device);
    passes.infer(inference);
    passes.train(training);
    wait_for(device);
    trace.write();
  }
  return result;
}

void print_segments(const Json& result) {
  const auto number = [&](const std::string& key) { return result[key].get<double>(); };
  std::cout << fmt::format("{}, {}\n", result["subject"].get<std::string>(),
                           result["device"].get<std::string>());
  const auto row = [&](const std::string& what, const std::string& key) {
    std::cout << fmt::format("  {:44} {:10.3f} ms  {:.0f} MiB, {:.2f} TFLOP: {:.1f} TFLOP/s\n",
                             what, number(key + "_ms"), number(key + "_mib"),
                             1e-12 * number(key + "_flops"), 1e-12 * number(key + "_flops_per_s"));
  };
  const auto n = result["recursions"].get<int64_t>();
  row(fmt::format("inference segment, {} recursions", n), "inference");
  row(fmt::format("training segment, {} and the last one back", n), "step");
  row("the same evaluated, not replayed", "step_evaluated");
  std::cout << fmt::format(
      "  one recursion reads and writes {:.0f} MB; products reach {:.1f} TFLOP/s, a copy {:.0f} "
      "GB/s\n",
      1e-6 * number("bytes_of_f"), 1e-12 * number("ceiling_flops_per_s"),
      1e-9 * number("ceiling_bytes_per_s"));
}

}  // namespace

void bench_segments(EquilibriumSubject& subject, const BenchArguments& arguments) {
  const auto result = measured(subject, arguments);
  print_segments(result);
  write_bench_json(result, arguments);
}

}  // namespace deq::lab::cli

#include <fmt/format.h>

#include <iostream>

#include "bench/measurements.h"
#include "bench/passes.h"
#include "bench/stopwatch.h"
#include "trace.h"

namespace deq::lab::cli {
namespace {

using Json = nlohmann::ordered_json;

/// A tolerance that could be met, so that the host asks after every evaluation whether it is.
constexpr double kNeverMet = 1e-30;

/// Times and memory of one model.
class Measurement {
 public:
  Measurement(EquilibriumSubject& subject, const BenchArguments& arguments)
      : subject_(subject), arguments_(arguments), passes_(subject, arguments) {}

  Json measure() {
    Trace trace(arguments_.trace);  // refused before the measuring, if at all
    auto result = measured();
    if (trace.asked_for()) write(trace);
    return result;
  }

 private:
  Json measured() {
    const auto& device = passes_.device();
    Json result{{"subject", subject_.name()},
                {"device", instructions_of(device)},
                {"solver", arguments_.solver}};
    const TensorFloat32Scope products(arguments_.precision, device);
    const auto ceilings = measure_ceilings(device, product_type(arguments_.precision));
    const auto n = arguments_.inference;
    const double solve = passes_.inference_ms(plan(n, 1));
    const double longer = passes_.inference_ms(plan(2 * n, 1));
    const double evaluation = (longer - solve) / static_cast<double>(n);
    const auto back = arguments_.adjoint;
    result["inference_evaluations"] = n;
    result["inference_ms"] = solve;
    result["inference_asking_ms"] = passes_.inference_ms(plan(n, 1, kNeverMet));
    result["evaluation_ms"] = evaluation;
    result["inference_mib"] = passes_.peak_mib([&] { passes_.infer(plan(n, 1)); });
    const auto how = plan(arguments_.forward, back);
    const double step = passes_.step_ms(how);
    const double more_products = passes_.step_ms(plan(arguments_.forward, 2 * back));
    result["step_evaluations"] = {arguments_.forward, back};
    result["step_ms"] = step;
    result["product_ms"] = (more_products - step) / static_cast<double>(back);
    // Before the graphs of a penalty are recorded, which stay.
    result["step_mib"] = passes_.peak_mib([&] { passes_.train(how); });
    const double with_term = passes_.step_ms(how, true);
    result["step_with_term_ms"] = with_term;
    result["term_ratio"] = with_term / step;
    result["step_with_term_mib"] = passes_.peak_mib([&] { passes_.train(how, true); });
    const double flops = subject_.flops_of_f(), bytes = passes_.bytes_of_f(plan(1, 1));
    result["flops_of_f"] = flops;
    result["flops_per_s"] = flops / (1e-3 * evaluation);
    result["ceiling_flops_per_s"] = ceilings.flops;
    result["bytes_of_f"] = bytes;
    result["bytes_per_s"] = bytes / (1e-3 * evaluation);
    result["ceiling_bytes_per_s"] = ceilings.bytes;
    return result;
  }

  EquilibriumPlan plan(int64_t forward, int64_t adjoint, double rtol = 0) const {
    return EquilibriumOptions{
        .forward = bench_solver(arguments_.solver, forward, rtol),
        .gradient = Implicit{.solver = bench_solver(arguments_.solver, adjoint)}};
  }

  /// An inference and a step as they are after all those that were measured.
  void write(Trace& trace) {
    const auto inference = plan(arguments_.inference, 1);
    const auto step = plan(arguments_.forward, arguments_.adjoint);
    trace.begin(passes_.device());
    passes_.infer(inference);
    passes_.train(step);
    passes_.train(step, true);
    wait_for(passes_.device());
    trace.write();
  }

  EquilibriumSubject& subject_;
  const BenchArguments& arguments_;
  Passes passes_;
};

void print(const Json& result) {
  const auto number = [&](const char* key) { return result[key].get<double>(); };
  std::cout << fmt::format("{}, {}, {}\n", result["subject"].get<std::string>(),
                           result["device"].get<std::string>(),
                           result["solver"].get<std::string>());
  const auto row = [](const std::string& what, double ms, const std::string& more) {
    std::cout << fmt::format("  {:44} {:10.3f} ms  {}\n", what, ms, more);
  };
  const auto memory = [&](const char* key) { return fmt::format("{:.0f} MiB", number(key)); };
  row(fmt::format("inference, {} evaluations", result["inference_evaluations"].get<int64_t>()),
      number("inference_ms"), memory("inference_mib"));
  row("the same, ready to stop after each of them", number("inference_asking_ms"), "");
  const auto steps = result["step_evaluations"].get<std::vector<int64_t>>();
  row(fmt::format("training step, {} + {} evaluations", steps[0], steps[1]), number("step_ms"),
      memory("step_mib"));
  row("training step with the Jacobian term", number("step_with_term_ms"),
      fmt::format("{}, {:.2f} times one without", memory("step_with_term_mib"),
                  number("term_ratio")));
  row("one evaluation more, with the solver's work", number("evaluation_ms"),
      fmt::format("{:.1f} GFLOP: {:.1f} of {:.1f} TFLOP/s", 1e-9 * number("flops_of_f"),
                  1e-12 * number("flops_per_s"), 1e-12 * number("ceiling_flops_per_s")));
  row("one product more, with the solver's work", number("product_ms"), "");
  std::cout << fmt::format(
      "  the operations of f read and write {:.0f} MB: {:.0f} of {:.0f} GB/s that a copy reaches\n",
      1e-6 * number("bytes_of_f"), 1e-9 * number("bytes_per_s"),
      1e-9 * number("ceiling_bytes_per_s"));
}

}  // namespace

void bench_model(EquilibriumSubject& subject, const BenchArguments& arguments) {
  const auto result = Measurement(subject, arguments).measure();
  print(result);
  write_bench_json(result, arguments);
}

}  // namespace deq::lab::cli

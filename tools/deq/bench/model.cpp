#include <fmt/format.h>
#include <torch/autograd.h>

#include <iostream>
#include <optional>

#include "bench/measurements.h"
#include "bench/stopwatch.h"
#include "bench/traffic.h"
#include "deq/jacobian/frobenius.h"
#include "deq/lab/train/optimiser.h"
#include "lab/base/device.h"
#include "lab/train/memory.h"
#include "trace.h"

namespace deq::lab::cli {
namespace {

using Json = nlohmann::ordered_json;

/// A tolerance that could be met, so that the host asks after every evaluation whether it is.
constexpr double kNeverMet = 1e-30;

/// Times and memory of one model.
class Measurement {
 public:
  Measurement(Subject& subject, const BenchArguments& arguments)
      : subject_(subject),
        arguments_(arguments),
        device_(usable_device(arguments.device)),
        optimiser_(Adam{}, trainable(subject.model())) {}

  Json measure() {
    std::optional<Trace> trace;  // refused before the measuring, if at all
    if (!arguments_.trace.empty()) trace.emplace(arguments_.trace);
    auto result = measured();
    if (trace) write(*trace);
    return result;
  }

 private:
  Json measured() {
    Json result{{"subject", subject_.name()},
                {"device", instructions_of(device_)},
                {"solver", arguments_.solver}};
    const TensorFloat32Scope products(arguments_.precision, device_);
    const auto ceilings = measure_ceilings(device_, product_type(arguments_.precision));
    const auto n = arguments_.inference;
    const double solve = inference_ms(n), longer = inference_ms(2 * n);
    const double evaluation = (longer - solve) / static_cast<double>(n);
    const auto back = arguments_.adjoint;
    result["inference_evaluations"] = n;
    result["inference_ms"] = solve;
    result["inference_asking_ms"] = inference_ms(n, kNeverMet);
    result["evaluation_ms"] = evaluation;
    result["inference_mib"] = peak([&] { infer(plan(n, 1)); });
    const double step = step_ms(arguments_.forward, back, false);
    const double more_products = step_ms(arguments_.forward, 2 * back, false);
    result["step_evaluations"] = {arguments_.forward, back};
    result["step_ms"] = step;
    result["product_ms"] = (more_products - step) / static_cast<double>(back);
    // Before the graphs of a penalty are recorded, which stay.
    result["step_mib"] = peak([&] { train(plan(arguments_.forward, back), false); });
    const double with_term = step_ms(arguments_.forward, back, true);
    result["step_with_term_ms"] = with_term;
    result["term_ratio"] = with_term / step;
    result["step_with_term_mib"] = peak([&] { train(plan(arguments_.forward, back), true); });
    const double flops = subject_.flops_of_f(), bytes = bytes_of_f();
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

  void infer(const EquilibriumPlan& how) {
    const torch::NoGradGuard no_grad;
    const PrecisionScope precision(arguments_.precision, device_);
    subject_.model().eval();
    subject_.forward(how);
  }

  /// A pass without gradients is linearised by an evaluation of its own, which no graph replays.
  double bytes_of_f() {
    const PrecisionScope precision(arguments_.precision, device_);
    subject_.model().eval();
    const auto pass = [&] {
      const torch::NoGradGuard no_grad;
      return subject_.forward(plan(1, 1));
    }();
    return bytes_moved([&] { pass.equilibria[0].linearization(); });
  }

  void train(const EquilibriumPlan& how, bool penalised) {
    subject_.model().train();
    optimiser_.zero_grad();
    TaskPass pass;
    torch::Tensor loss;
    {
      const PrecisionScope precision(arguments_.precision, device_);
      pass = subject_.forward(how);
      loss = pass.loss;
      if (penalised) loss = loss + jacobian_penalty(pass.equilibria[0].linearization());
    }
    torch::autograd::backward({loss}, {}, {}, false, optimiser_.parameters());
    optimiser_.step(0.0);  // the work of a step, the weights of the first
  }

  double inference_ms(int64_t evaluations, double rtol = 0) {
    const auto how = plan(evaluations, 1, rtol);
    return median_ms(device_, arguments_.repeats, [&] { infer(how); });
  }

  double step_ms(int64_t forward, int64_t adjoint, bool penalised) {
    const auto how = plan(forward, adjoint);
    return median_ms(device_, arguments_.repeats, [&] { train(how, penalised); });
  }

  /// An inference and a step as they are after all those that were measured.
  void write(Trace& trace) {
    const auto inference = plan(arguments_.inference, 1);
    const auto step = plan(arguments_.forward, arguments_.adjoint);
    trace.begin(device_);
    infer(inference);
    train(step, false);
    train(step, true);
    wait_for(device_);
    trace.write();
  }

  double peak(const std::function<void()>& work) const {
    reset_peak_memory(device_);
    work();
    return peak_memory_mib(device_);
  }

  Subject& subject_;
  const BenchArguments& arguments_;
  torch::Device device_;
  Optimiser optimiser_;
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

void bench_model(Subject& subject, const BenchArguments& arguments) {
  const auto result = Measurement(subject, arguments).measure();
  print(result);
  write_bench_json(result, arguments);
}

}  // namespace deq::lab::cli

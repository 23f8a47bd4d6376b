#include <fmt/format.h>
#include <torch/autograd.h>

#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/stopwatch.h"
#include "bench/subject.h"
#include "bench/trace.h"
#include "checks.h"
#include "commands.h"
#include "deq/core/cuda.h"
#include "deq/io/atomic_file.h"
#include "deq/jacobian/frobenius.h"
#include "deq/models/mdeq_options.h"
#include "deq/train/optimiser.h"
#include "train/memory.h"

namespace deq::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string device = "cpu", solver = "broyden", json{}, trace{};
  Precision precision = Precision::Float32;
  int64_t batch = 0, repeats = 10;
  std::string preset = "cifar-large-reg";  // of mdeq
  bool pre_ln = false;                     // of transformer
  int64_t inference = 6, forward = 7, adjoint = 8;
  int64_t dim = 61440;  // of solvers
};

const std::map<std::string, Precision> kPrecisions{{"float32", Precision::Float32},
                                                   {"tf32", Precision::TensorFloat32},
                                                   {"bfloat16", Precision::BFloat16},
                                                   {"float64", Precision::Float64}};

/// With a tolerance that is never met: exactly so many evaluations.
SolverOptions solver(const std::string& name, int64_t evaluations, double rtol = 0) {
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

/// A tolerance that could be met, so that the host asks after every evaluation whether it is.
constexpr double kNeverMet = 1e-30;

/// Times and memory of one model.
class Measurement {
 public:
  Measurement(Subject& subject, const Arguments& arguments)
      : subject_(subject),
        arguments_(arguments),
        device_(usable_device(arguments.device)),
        optimiser_(Adam{}, trainable(subject.model())) {}

  Json measure() {
    auto result = measured();
    if (!arguments_.trace.empty()) trace();
    return result;
  }

 private:
  Json measured() {
    Json result{
        {"subject", subject_.name()}, {"device", arguments_.device}, {"solver", arguments_.solver}};
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
    const double flops = subject_.flops_of_f();
    result["flops_of_f"] = flops;
    result["flops_per_s"] = flops / (1e-3 * evaluation);
    result["ceiling_flops_per_s"] = ceilings.flops;
    result["ceiling_bytes_per_s"] = ceilings.bytes;
    return result;
  }

  EquilibriumPlan plan(int64_t forward, int64_t adjoint, double rtol = 0) const {
    return EquilibriumOptions{.forward = solver(arguments_.solver, forward, rtol),
                              .gradient = Implicit{.solver = solver(arguments_.solver, adjoint)}};
  }

  void infer(const EquilibriumPlan& how) {
    const torch::NoGradGuard no_grad;
    const PrecisionScope precision(arguments_.precision, device_);
    subject_.model().eval();
    subject_.forward(how);
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
  void trace() {
    const auto inference = plan(arguments_.inference, 1);
    const auto step = plan(arguments_.forward, arguments_.adjoint);
    write_trace(arguments_.trace, device_, [&] {
      infer(inference);
      train(step, false);
      train(step, true);
      wait_for(device_);
    });
  }

  double peak(const std::function<void()>& work) const {
    reset_peak_memory(device_);
    work();
    return peak_memory_mib(device_);
  }

  Subject& subject_;
  const Arguments& arguments_;
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
  row("one product more, with the solver's work", number("product_ms"),
      fmt::format("copies reach {:.0f} GB/s here", 1e-9 * number("ceiling_bytes_per_s")));
}

void finish(const Json& result, const std::string& path) {
  if (!path.empty()) write_file_atomically(path, result.dump(2) + "\n");
}

void bench(Subject& subject, const Arguments& arguments) {
  const auto result = Measurement(subject, arguments).measure();
  print(result);
  finish(result, arguments.json);
}

/// f(z) = a ⊙ z + x reads two numbers a number and writes one: what is left is the solver's.
void bench_solvers(const Arguments& arguments) {
  const auto device = usable_device(arguments.device);
  const auto numbers = torch::TensorOptions(device).dtype(storage_type(arguments.precision));
  torch::manual_seed(0);
  const auto a = torch::rand({1, arguments.dim}, numbers).mul_(1.9).sub_(0.95);
  const auto x = torch::randn({arguments.batch, arguments.dim}, numbers);
  const auto start = torch::zeros_like(x);
  const Problem problem{.f = [&](const torch::Tensor& z) { return torch::addcmul(x, a, z); }};
  const auto ceilings = measure_ceilings(device, product_type(arguments.precision));
  Json result{
      {"batch", arguments.batch}, {"dim", arguments.dim}, {"ceiling_bytes_per_s", ceilings.bytes}};
  std::cout << fmt::format("{} samples of {} numbers on {}; copies reach {:.0f} GB/s\n",
                           arguments.batch, arguments.dim, arguments.device, 1e-9 * ceilings.bytes);
  const double slab = static_cast<double>(x.nbytes());
  for (const std::string name : {"picard", "anderson", "broyden", "broyden-bfloat16"}) {
    const auto ms = [&](int64_t evaluations) {
      const Solver with(solver(name, evaluations));
      return median_ms(device, arguments.repeats, [&] { with.solve(problem, start); });
    };
    const auto n = arguments.forward;
    const double whole = ms(n), step = (ms(2 * n) - whole) / static_cast<double>(n);
    std::cout << fmt::format(
        "  {:16} {} evaluations {:9.3f} ms, one more {:9.3f} ms: {:.1f} slabs at that rate\n", name,
        n, whole, step, 1e-3 * step * ceilings.bytes / slab);
    result[name] = {{"evaluations", n}, {"ms", whole}, {"evaluation_ms", step}};
  }
  finish(result, arguments.json);
}

CLI::App* add_subject(CLI::App& bench, const char* name, const char* what,
                      const std::shared_ptr<Arguments>& arguments) {
  auto* command = bench.add_subcommand(name, what);
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--precision", arguments->precision, "float32, tf32, bfloat16 or float64")
      ->transform(CLI::CheckedTransformer(kPrecisions));
  command->add_option("--batch", arguments->batch, "samples")
      ->capture_default_str()
      ->check(positive_whole_number);
  command->add_option("--repeats", arguments->repeats, "calls of which the median is told")
      ->capture_default_str()
      ->check(positive_whole_number);
  command->add_option("--forward", arguments->forward, "evaluations of a training step's solve")
      ->capture_default_str()
      ->check(positive_whole_number);
  command->add_option("--json", arguments->json, "also write the numbers to this file");
  return command;
}

CLI::App* add_model(CLI::App& bench, const char* name, const char* what,
                    const std::shared_ptr<Arguments>& arguments) {
  auto* command = add_subject(bench, name, what, arguments);
  command->add_option("--solver", arguments->solver, "of both solves")
      ->capture_default_str()
      ->check(CLI::IsMember({"picard", "anderson", "broyden", "broyden-bfloat16"}));
  command
      ->add_option("--adjoint", arguments->adjoint, "products of a training step's adjoint solve")
      ->capture_default_str()
      ->check(positive_whole_number);
  command->add_option("--trace", arguments->trace,
                      "also write what host and device do in an inference and two steps");
  command->add_option("--inference", arguments->inference, "evaluations without gradient")
      ->capture_default_str()
      ->check(positive_whole_number);
  return command;
}

}  // namespace

void add_bench(CLI::App& program) {
  auto* command = program.add_subcommand(
      "bench", "Measure the speed and memory of a model or of the solvers on this machine.");
  command->require_subcommand(1);

  const auto mdeq = std::make_shared<Arguments>(Arguments{.batch = 96});
  auto* images = add_model(*command, "mdeq", "The multiscale DEQ on random images.", mdeq);
  images->add_option("--preset", mdeq->preset, "the authors' configuration")
      ->capture_default_str()
      ->check(CLI::IsMember(mdeq_preset_names()));
  images->callback([mdeq] {
    bench(*mdeq_subject(mdeq->preset, mdeq->batch, usable_device(mdeq->device), mdeq->precision),
          *mdeq);
  });

  const auto text = std::make_shared<Arguments>(
      Arguments{.batch = 15, .inference = 12, .forward = 12, .adjoint = 12});
  auto* words = add_model(*command, "transformer",
                          "The DEQ-Transformer at the paper's size on random words.", text);
  words->add_flag("--pre-ln", text->pre_ln, "layer norms before the parts, not after");
  words->callback([text] {
    bench(*transformer_subject(text->pre_ln, text->batch, usable_device(text->device),
                               text->precision),
          *text);
  });

  const auto slabs = std::make_shared<Arguments>(Arguments{.batch = 96, .forward = 8});
  auto* solvers =
      add_subject(*command, "solvers", "Solvers on a map that costs next to nothing.", slabs);
  solvers->add_option("--dim", slabs->dim, "numbers a sample")
      ->capture_default_str()
      ->check(positive_whole_number);
  solvers->callback([slabs] { bench_solvers(*slabs); });
}

}  // namespace deq::cli

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>

#include "bench/measurements.h"
#include "bench/passes.h"
#include "bench/stopwatch.h"
#include "configs.h"
#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "lab/base/device.h"
#include "lab/tasks/random_step.h"

namespace deq::lab::cli {
namespace {

/// A network's sizes and the shapes of its steps are those of a file in configs/.
struct NamedConfig {
  std::string_view name, file;
};

constexpr std::array kNetworks{
    NamedConfig{"resnet18", "gpu/cifar10-resnet18.toml"},
    NamedConfig{"resnet101", "gpu/cifar10-resnet101.toml"},
    NamedConfig{"densenet121", "gpu/cifar10-densenet121.toml"},
    NamedConfig{"inception-v2", "gpu/cifar10-inception-v2.toml"},
    NamedConfig{"transformer-xl", "books/transformer-xl.toml"},
    NamedConfig{"awd-qrnn", "books/awd-qrnn.toml"},
    NamedConfig{"relational-memory", "books/relational-memory.toml"},
    NamedConfig{"gpt2", "books/gpt2.toml"},
};

std::filesystem::path config_of(const std::string& name) {
  const auto found = std::ranges::find(kNetworks, name, &NamedConfig::name);
  require<UsageError>(found != kNetworks.end(),
                      "there is no explicit network \"{}\"; there are: {}", name, explicit_names());
  const auto path = find_in_configs(found->file);
  require<UsageError>(path.has_value(),
                      "there is no file configs/{}, neither here nor above the program",
                      found->file);
  return *path;
}

class ExplicitSubject final : public Subject {
 public:
  ExplicitSubject(const ExplicitNetwork& network, const BenchArguments& arguments)
      : name_(network.name) {
    RandomStepOptions options{.device = usable_device(arguments.device),
                              .precision = arguments.precision};
    if (arguments.batch > 0) options.batch_size = arguments.batch;
    step_ = make_random_step(config_of(network.name), network.overrides, options);
  }

  std::string name() const override {
    std::string text = name_;
    for (const auto& [size, value] : step_->shapes()) text += fmt::format(", {} {}", size, value);
    return text;
  }
  torch::nn::Module& model() override { return step_->model(); }
  TaskPass forward(const EquilibriumPlan& how) override { return step_->forward(how); }

  const RandomStep& step() const { return *step_; }

 private:
  std::string name_;
  std::unique_ptr<RandomStep> step_;
};

nlohmann::ordered_json measured(ExplicitSubject& subject, const BenchArguments& arguments) {
  Passes passes(subject, arguments);
  int64_t parameters = 0;
  for (const auto& parameter : subject.model().parameters()) parameters += parameter.numel();
  nlohmann::ordered_json result{{"subject", subject.name()},
                                {"device", instructions_of(passes.device())},
                                {"parameters", parameters}};
  for (const auto& [size, value] : subject.step().shapes()) result[size] = value;
  const TensorFloat32Scope products(arguments.precision, passes.device());
  const EquilibriumPlan nothing_to_solve = EquilibriumOptions{};
  result["inference_ms"] = passes.inference_ms(nothing_to_solve);
  result["inference_mib"] = passes.peak_mib([&] { passes.infer(nothing_to_solve); });
  result["step_ms"] = passes.step_ms(nothing_to_solve);
  result["step_mib"] = passes.peak_mib([&] { passes.train(nothing_to_solve); });
  return result;
}

void print_explicit(const nlohmann::ordered_json& result) {
  std::cout << fmt::format("{}, {}, {:.1f}M parameters\n", result["subject"].get<std::string>(),
                           result["device"].get<std::string>(),
                           1e-6 * result["parameters"].get<double>());
  const auto row = [&](const char* what, const std::string& key) {
    std::cout << fmt::format("  {:44} {:10.3f} ms  {:.0f} MiB\n", what,
                             result[key + "_ms"].get<double>(), result[key + "_mib"].get<double>());
  };
  row("inference", "inference");
  row("training step", "step");
}

}  // namespace

std::string explicit_names() {
  std::vector<std::string_view> names;
  names.reserve(kNetworks.size());
  for (const auto& network : kNetworks) names.push_back(network.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void bench_explicit(const ExplicitNetwork& network, const BenchArguments& arguments) {
  ExplicitSubject subject(network, arguments);
  const auto result = measured(subject, arguments);
  print_explicit(result);
  write_bench_json(result, arguments);
}

}  // namespace deq::lab::cli

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>

#include "bench/gpt2_plan.h"
#include "bench/measurements.h"
#include "checks.h"
#include "commands.h"
#include "deq/models/mdeq/options.h"
#include "lab/base/device.h"

namespace deq::lab::cli {
namespace {

const std::map<std::string, Precision> kPrecisions{{"float32", Precision::Float32},
                                                   {"tf32", Precision::TensorFloat32},
                                                   {"bfloat16", Precision::BFloat16},
                                                   {"float64", Precision::Float64}};

// Far beyond any memory; even together they are numbers that can be counted.
constexpr int64_t kMostSamples = 65'536, kMostFeatures = 65'536, kMostPixels = 8'192,
                  kMostNumbers = 1'000'000'000;

CLI::App* add_subject(CLI::App& bench, const char* name, const char* what,
                      const std::shared_ptr<BenchArguments>& arguments) {
  auto* command = bench.add_subcommand(name, what);
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--precision",
          [arguments](const std::string& chosen) { arguments->precision = kPrecisions.at(chosen); },
          "of the products")
      ->default_str("float32")
      ->check(CLI::IsMember({"float32", "tf32", "bfloat16", "float64"}));
  auto* batch =
      command->add_option("--batch", arguments->batch, "samples")->check(size_up_to(kMostSamples));
  if (arguments->batch > 0) batch->capture_default_str();
  command->add_option("--repeats", arguments->repeats, "calls of which the median is told")
      ->capture_default_str()
      ->check(positive_whole_number);
  add_json_file(*command, arguments->json);
  return command;
}

/// One that solves.
CLI::App* add_solved(CLI::App& bench, const char* name, const char* what,
                     const std::shared_ptr<BenchArguments>& arguments) {
  auto* command = add_subject(bench, name, what, arguments);
  command->add_option("--forward", arguments->forward, "evaluations of a training step's solve")
      ->capture_default_str()
      ->check(positive_whole_number);
  return command;
}

void add_trace(CLI::App& command, BenchArguments& arguments) {
  command.add_option("--trace", arguments.trace,
                     "also write what host and device do in an inference and in steps");
}

CLI::App* add_model(CLI::App& bench, const char* name, const char* what,
                    const std::shared_ptr<BenchArguments>& arguments) {
  auto* command = add_solved(bench, name, what, arguments);
  command->add_option("--solver", arguments->solver, "of both solves")
      ->capture_default_str()
      ->check(CLI::IsMember({"picard", "anderson", "broyden", "broyden-bfloat16"}));
  command
      ->add_option("--adjoint", arguments->adjoint, "products of a training step's adjoint solve")
      ->capture_default_str()
      ->check(positive_whole_number);
  add_trace(*command, *arguments);
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

  const auto mdeq = std::make_shared<BenchArguments>(BenchArguments{.batch = 96});
  const auto multiscale = std::make_shared<MdeqSizes>();
  auto* images = add_model(*command, "mdeq", "The multiscale DEQ on random images.", mdeq);
  images->add_option("--preset", multiscale->preset, "the authors' configuration")
      ->capture_default_str()
      ->check(CLI::IsMember(models::mdeq_preset_names()));
  images
      ->add_option("--channels", multiscale->channels,
                   "of its finest scale, instead of the preset's; the other scales grow with it")
      ->check(size_up_to(kMostFeatures));
  images->add_option("--groups", multiscale->groups, "of its group norms, instead of the preset's")
      ->check(positive_whole_number);
  images->add_option("--size", multiscale->image_size, "height and width of the images")
      ->check(size_up_to(kMostPixels));
  images->callback([mdeq, multiscale] {
    multiscale->batch = mdeq->batch;
    bench_model(*mdeq_subject(*multiscale, usable_device(mdeq->device), mdeq->precision), *mdeq);
  });

  const auto text = std::make_shared<BenchArguments>(
      BenchArguments{.batch = 15, .inference = 12, .forward = 12, .adjoint = 12});
  auto* words = add_model(*command, "transformer",
                          "The DEQ-Transformer at the paper's size on random words.", text);
  words->add_flag("--pre-ln", text->pre_ln, "layer norms before the parts, not after");
  words->callback([text] {
    bench_model(*transformer_subject(text->pre_ln, text->batch, usable_device(text->device),
                                     text->precision),
                *text);
  });

  const auto puzzles = std::make_shared<BenchArguments>(BenchArguments{.batch = 768, .forward = 3});
  const auto sizes = std::make_shared<ReasonerSizes>();
  auto* reasoner = add_solved(*command, "reasoner",
                              "Segments of the Equilibrium Reasoner on random puzzles.", puzzles);
  add_trace(*reasoner, *puzzles);
  reasoner->add_option("--cells", sizes->tokens, "of a puzzle")
      ->capture_default_str()
      ->check(size_up_to(kMostFeatures));
  reasoner->add_option("--width", sizes->width, "features of a cell")
      ->capture_default_str()
      ->check(size_up_to(kMostFeatures));
  reasoner->add_flag("--attention", sizes->attention, "cells see each other by attention");
  reasoner->callback([puzzles, sizes] {
    sizes->batch = puzzles->batch;
    bench_segments(*reasoner_subject(*sizes, usable_device(puzzles->device), puzzles->precision),
                   *puzzles);
  });

  const auto rivals = std::make_shared<BenchArguments>();
  const auto network = std::make_shared<ExplicitNetwork>();
  auto* rival = add_subject(*command, "explicit",
                            "A network without equilibria on random data; the batch is that of its "
                            "configuration by default.",
                            rivals);
  rival->add_option("NAME", network->name, explicit_names())->required();
  rival
      ->add_option("--set", network->overrides,
                   "override a key of its configuration, e.g. --set model.dropout=0; may be "
                   "repeated")
      ->allow_extra_args(false);
  rival->callback([rivals, network] { bench_explicit(*network, *rivals); });

  const auto slabs = std::make_shared<BenchArguments>(BenchArguments{.batch = 96, .forward = 8});
  auto* solvers =
      add_solved(*command, "solvers", "Solvers on a map that costs next to nothing.", slabs);
  solvers->add_option("--dim", slabs->dim, "numbers per sample")
      ->capture_default_str()
      ->check(size_up_to(kMostNumbers));
  solvers->callback([slabs] { bench_solvers(*slabs); });

  add_gpt2_plan(*command);
}

}  // namespace deq::lab::cli

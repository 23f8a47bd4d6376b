#include "bench/gpt2_plan.h"

#include <fmt/format.h>

#include <iostream>
#include <limits>
#include <memory>

#include "bench/arguments.h"
#include "checks.h"
#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/models/transformer/gpt2_footprint.h"
#include "lab/base/misuse.h"

namespace deq::lab::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Of the GPUs that the plan is held against.
constexpr int64_t kCapacities[] = {80, 141};

struct PlanArguments {
  std::string preset = "8.3b", json{};
  std::vector<std::string> gpus{"8,64"};
  models::Gpt2Load load{.parts = 8};
  bool plan = false;  // the only thing there is, and to be asked for
};

constexpr double kGigabyte = 1e9;

/// Of the layers' activations, what is kept until the way back.
struct Kept {
  std::string_view key, name;
  double models::Gpt2Activations::*bytes;
};

constexpr Kept kWaysToKeep[] = {
    {"everything", "all are kept", &models::Gpt2Activations::everything},
    {"no_scores", "attention's scores are made again", &models::Gpt2Activations::no_scores},
    {"inputs_only", "all but the layers' inputs are made again",
     &models::Gpt2Activations::inputs_only}};

int64_t words_at_once(int64_t copies, const models::Gpt2Load& load) {
  const auto most = std::numeric_limits<int64_t>::max() / load.words / load.batch;
  require<UsageError>(copies <= most,
                      "{} copies of {} × {} words at once are more than can be counted", copies,
                      load.batch, load.words);
  return copies * load.batch * load.words;
}

Json planned(const PlanArguments& arguments) {
  const auto options = models::gpt2_preset(arguments.preset);
  const auto& load = arguments.load;
  const auto gpu_counts = numbers_of(arguments.gpus);
  for (const auto gpus : gpu_counts) {
    require<UsageError>(gpus % load.parts == 0,
                        "--gpus: {} GPUs, must be a multiple of --tensor-parallel = {}", gpus,
                        load.parts);
  }
  const auto one = refusals_as_misuse([&] { return models::gpt2_footprint(options, load); });
  Json result{{"preset", arguments.preset},
              {"parameters", models::parameter_count(options)},
              {"tensor_parallel", load.parts},
              {"micro_batch", load.batch},
              {"words", load.words}};
  result["per_gpu"] = {{"parameters", one.parameters},
                       {"weights_bytes", one.weights},
                       {"gradients_bytes", one.gradients},
                       {"optimiser_bytes", one.optimiser},
                       {"outside_bytes", one.activations.outside}};
  for (const auto& kept : kWaysToKeep) {
    const double bytes = one.activations.*kept.bytes;
    const double total = one.states() + one.activations.outside + bytes;
    Json row{{"activations_bytes", bytes}, {"total_bytes", total}};
    for (const auto capacity : kCapacities) {
      row[fmt::format("fits_{}_gb", capacity)] = total <= static_cast<double>(capacity) * kGigabyte;
    }
    result["per_gpu"][std::string(kept.key)] = row;
  }
  for (const auto gpus : gpu_counts) {
    const auto copies = gpus / load.parts;
    result["gpus"].push_back(
        {{"gpus", gpus}, {"copies", copies}, {"words_at_once", words_at_once(copies, load)}});
  }
  return result;
}

void print_plan(const Json& plan) {
  const auto& gpu = plan["per_gpu"];
  const auto row = [](std::string_view what, double bytes, const std::string& more) {
    std::cout << fmt::format("  {:60} {:8.2f} GB  {}\n", what, bytes / kGigabyte, more);
  };
  std::cout << fmt::format(
      "GPT-2 {}, {:.2f} billion parameters, each layer shared by {} GPUs\nOne GPU holds, of {:.2f} "
      "billion parameters:\n",
      plan["preset"].get<std::string>(), plan["parameters"].get<double>() / 1e9,
      plan["tensor_parallel"].get<int64_t>(), gpu["parameters"].get<double>() / 1e9);
  row("weights, bfloat16", gpu["weights_bytes"], "");
  row("gradients, bfloat16", gpu["gradients_bytes"], "");
  row("Adam: master weights and two moments, float32", gpu["optimiser_bytes"], "");
  std::cout << fmt::format("and of a micro-batch of {} × {} words, in 16 bits:\n",
                           plan["micro_batch"].get<int64_t>(), plan["words"].get<int64_t>());
  row("outside of the layers", gpu["outside_bytes"], "");
  for (const auto& kept : kWaysToKeep) {
    const auto& way = gpu[std::string(kept.key)];
    std::string fits;
    for (const auto capacity : kCapacities) {
      fits += fmt::format(", {} {} GB",
                          way[fmt::format("fits_{}_gb", capacity)].get<bool>() ? "fits" : "exceeds",
                          capacity);
    }
    row(fmt::format("the layers', where {}", kept.name), way["activations_bytes"],
        fmt::format("in all {:.2f} GB{}", way["total_bytes"].get<double>() / kGigabyte, fits));
  }
  for (const auto& group : plan["gpus"]) {
    const auto copies = group["copies"].get<int64_t>();
    std::cout << fmt::format("{} GPUs: {} of the model, {} words at once\n",
                             group["gpus"].get<int64_t>(),
                             copies == 1 ? "one copy" : fmt::format("{} copies", copies),
                             group["words_at_once"].get<int64_t>());
  }
  std::cout
      << "Computed, not measured. Every GPU has all of embedding and softmax, and every copy all "
         "of Adam's numbers; what an allocator leaves unused comes on top.\n";
}

void plan_gpt2(const PlanArguments& arguments) {
  const auto plan = planned(arguments);
  print_plan(plan);
  write_bench_json(plan, {.json = arguments.json});
}

}  // namespace

void add_gpt2_plan(CLI::App& bench) {
  const auto arguments = std::make_shared<PlanArguments>();
  auto* command = bench.add_subcommand("gpt2", "The memory that Megatron's GPT-2 would take.");
  command->add_flag("--plan", arguments->plan, "compute it, without a GPU; nothing is measured")
      ->required();
  command->add_option("--preset", arguments->preset, "the published size")
      ->capture_default_str()
      ->check(CLI::IsMember(models::gpt2_preset_names()));
  command->add_option("--gpus", arguments->gpus, "how many, in one or several plans")
      ->capture_default_str()
      ->check(positive_whole_numbers);
  command->add_option("--tensor-parallel", arguments->load.parts, "GPUs that share each layer")
      ->capture_default_str()
      ->check(positive_whole_number);
  command->add_option("--micro-batch", arguments->load.batch, "rows of a micro-batch")
      ->capture_default_str()
      ->check(positive_whole_number);
  command->add_option("--words", arguments->load.words, "of a row")
      ->capture_default_str()
      ->check(positive_whole_number);
  add_json_file(*command, arguments->json);
  command->callback([arguments] { plan_gpt2(*arguments); });
}

}  // namespace deq::lab::cli

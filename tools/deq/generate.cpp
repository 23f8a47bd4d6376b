#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "checks.h"
#include "commands.h"
#include "deq/lab/data/text/vocabulary.h"
#include "deq/lab/trained/text_generator.h"
#include "lab/base/device.h"
#include "run_arguments.h"

namespace deq::lab::cli {
namespace {

/// Words that are also read from the model's own start, to measure what the start at the last
/// equilibrium saves.
constexpr int64_t kCompared = 32;

struct GenerateArguments : RunArguments {
  std::string prompt;
  int64_t words = 100;
  SamplingOptions sampling{};
  bool json = false;
};

struct Saving {
  int64_t compared = 0;
  double evaluations = 0, from_start = 0;  // sums over the words compared

  double warm_mean() const { return evaluations / static_cast<double>(compared); }
  double cold_mean() const { return from_start / static_cast<double>(compared); }
};

/// A blank before every word that does not begin a line.
std::string as_text(std::string_view word, bool line_begins) {
  if (word == kEndOfLineWord) return "\n";
  return (line_begins ? "" : " ") + std::string(word);
}

void run_generate(const GenerateArguments& arguments) {
  TextGenerator generator(arguments.run, arguments.sampling, usable_device(arguments.device),
                          arguments.which(), arguments.overrides);
  print_warnings(generator.warnings());
  for (const auto& word : generator.read(arguments.prompt)) {
    std::cerr << "deq: the model does not know \"" << word << "\"\n";
  }
  std::string text = arguments.prompt;
  if (!arguments.json) std::cout << text;
  Saving saving;
  for (int64_t i = 0; i < arguments.words; ++i) {
    const auto word = generator.next();
    const auto piece = as_text(word.word, text.empty() || text.back() == '\n');
    text += piece;
    if (!arguments.json) std::cout << piece << std::flush;
    if (!word.evaluations || saving.compared == kCompared) continue;
    saving.evaluations += static_cast<double>(*word.evaluations);
    saving.from_start += static_cast<double>(generator.evaluations_from_zero().value());
    ++saving.compared;
  }
  if (arguments.json) {
    nlohmann::ordered_json result{{"text", text}, {"words", arguments.words}};
    if (saving.compared > 0) {
      result["evaluations_per_word"] = saving.warm_mean();
      result["evaluations_per_word_from_zero"] = saving.cold_mean();
    }
    std::cout << result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return;
  }
  std::cout << '\n';
  if (saving.compared == 0) return;
  // Adding 0 makes "-0" a "0".
  const double saved = std::round(100 * (1 - saving.warm_mean() / saving.cold_mean())) + 0.0;
  std::cerr << fmt::format(
      "deq: {:.1f} evaluations per word from the last equilibrium on, {:.1f} from the model's own "
      "start: {:.0f} % saved (first {} words)\n",
      saving.warm_mean(), saving.cold_mean(), saved, saving.compared);
}

}  // namespace

void add_generate(CLI::App& program) {
  const auto arguments = std::make_shared<GenerateArguments>();
  auto* command = program.add_subcommand(
      "generate",
      "Continue a text with the language model of a run. The run's data is not needed.");
  add_run_arguments(*command, *arguments, "solver.forward.max_evals=20");
  command->add_option("--prompt", arguments->prompt, "the text to continue, its words apart");
  command->add_option("--words", arguments->words, "how many words to add")
      ->capture_default_str()
      ->check(positive_whole_number);
  command
      ->add_option("--temperature", arguments->sampling.temperature,
                   "below 1 likely words become likelier")
      ->capture_default_str();
  command
      ->add_option("--top", arguments->sampling.top,
                   "only this many of the likeliest words; 0: all")
      ->capture_default_str();
  command->add_option("--seed", arguments->sampling.seed, "another seed, another text")
      ->capture_default_str()
      ->check(whole_number);
  command->add_flag("--json", arguments->json, "print one JSON object");
  command->callback([arguments] { run_generate(*arguments); });
}

}  // namespace deq::lab::cli

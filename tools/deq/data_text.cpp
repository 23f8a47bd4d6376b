#include "data_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>

#include "data.h"

namespace deq::lab::cli {
namespace {

double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string list_text(const std::vector<int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

}  // namespace

nlohmann::ordered_json to_json(const TextCheck& check) {
  auto splits = nlohmann::ordered_json::array();
  for (const auto& split : check.splits) {
    splits.push_back({{"split", split.name},
                      {"file", split.file},
                      {"bytes", split.bytes},
                      {"lines", split.lines},
                      {"words", split.words},
                      {"different", split.different},
                      {"unknown", split.unknown}});
  }
  return {{"path", check.folder.string()},
          {"format", "text"},
          {"splits", splits},
          {"vocabulary", check.vocabulary},
          {"rare", check.rare},
          {"cutoffs", check.cutoffs},
          {"problems", problems_json(check.problems)}};
}

void print_summary(const TextCheck& check) {
  std::cout << fmt::format("{}: text in words (experiment = \"language\")\n",
                           check.folder.string());
  for (const auto& split : check.splits) {
    std::cout << fmt::format("{}: {} words in {} lines, {} different, {}\n", split.name,
                             split.words, split.lines, split.different, bytes_text(split.bytes));
    if (split.name != "train") {
      std::cout << fmt::format("  unknown    {} ({:.2g} %) are not in the training text\n",
                               split.unknown, percent(split.unknown, split.words));
    }
  }
  if (check.vocabulary == 0) return;
  std::cout << fmt::format(
      "vocabulary: {} words with <eos> and <unk>, {} of them once in the training text\n"
      "  cutoffs    {}, which model.cutoffs = [] chooses\n",
      check.vocabulary, check.rare, list_text(check.cutoffs));
}

void print_problems(const TextCheck& check, size_t shown) {
  print_named(check.problems, shown);
}

}  // namespace deq::lab::cli

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "deq/lab/data/images/image_check.h"

// What the subcommands of `deq data` say.

namespace deq::lab::cli {

/// Everything that is known, with every problem by name.
nlohmann::ordered_json to_json(const ImageCheck& check);

/// "1.2 MiB"
std::string bytes_text(int64_t bytes);

/// Of problems that say `where` they are and `what` is wrong there.
template <class Problem>
nlohmann::ordered_json problems_json(const std::vector<Problem>& problems) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [where, what] : problems) list.push_back({{"where", where}, {"what", what}});
  return list;
}

/// The first of the problems, and how many more there are.
template <class Problem>
void print_named(const std::vector<Problem>& problems, size_t shown) {
  for (size_t i = 0; i < std::min(shown, problems.size()); ++i) {
    std::cout << fmt::format("{}: {}\n", problems[i].where, problems[i].what);
  }
  if (problems.size() > shown) {
    std::cout << fmt::format("… and {} more; --show N names as many\n", problems.size() - shown);
  }
}

/// Names of files need not be UTF-8: what is not is replaced.
void print_json(const nlohmann::ordered_json& object);

/// The splits: counts, sizes, channels, statistics.
void print_summary(const ImageCheck& check);

/// The first of the problems, how many there are, and what is not used.
void print_problems(const ImageCheck& check, size_t shown);

/// The lines of a configuration that read these images from `path`.
std::string suggested_config(const ImageCheck& check, const std::string& path);

}  // namespace deq::lab::cli

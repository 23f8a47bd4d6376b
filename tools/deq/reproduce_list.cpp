#include "reproduce_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "output.h"

namespace deq::lab::cli {
namespace rp = reproduce;

namespace {

struct Cost {
  int64_t runs = 0;
  double minutes = 0, memory_gib = 0;
  std::string data;
};

Cost cost_of(const rp::Exhibit& exhibit, const rp::Catalogue& catalogue) {
  std::set<std::string> names;
  std::set<rp::Data> data;
  Cost cost;
  for (const auto& member : exhibit.members) {
    if (!names.insert(member.run).second) continue;
    const auto& run = *catalogue.find(member.run);
    ++cost.runs;
    cost.minutes += run.minutes;
    cost.memory_gib = std::max(cost.memory_gib, run.memory_gib);
    data.insert(run.data);
  }
  if (data.size() > 1) data.erase(rp::Data::None);
  for (const auto& one : data) {
    if (!cost.data.empty()) cost.data += ' ';
    cost.data += name(one);
  }
  return cost;
}

std::string duration_text(double minutes) {
  if (minutes < 1.5) return fmt::format("{:.0f} s", minutes * 60);
  if (minutes < 90) return fmt::format("{:.0f} min", minutes);
  return minutes < 60 * 48 ? fmt::format("{:.0f} h", minutes / 60)
                           : fmt::format("{:.0f} days", minutes / (60 * 24));
}

bool is_at(const rp::Exhibit& exhibit, rp::Scale scale) {
  return std::ranges::any_of(exhibit.members,
                             [&](const rp::Member& member) { return member.from <= scale; });
}

void print_line(const rp::Exhibit& exhibit, const rp::Catalogue& catalogue, bool json) {
  const auto cost = cost_of(at_scale(exhibit, catalogue), catalogue);
  if (json) {
    std::cout << to_json({{"name", exhibit.name},
                          {"title", exhibit.title},
                          {"scale", std::string(name(catalogue.scale))},
                          {"runs", cost.runs},
                          {"minutes", cost.minutes},
                          {"memory_gib", cost.memory_gib},
                          {"data", cost.data},
                          {"not_here", fmt::format("{}", fmt::join(absences(exhibit), "; "))},
                          {"machine", catalogue.machine},
                          {"costs", catalogue.costs}})
              << '\n';
  } else {
    std::cout << fmt::format("  {:6} {:>2} {:5} {:>8}  {:>5.3g} GiB  {}\n", name(catalogue.scale),
                             cost.runs, cost.runs == 1 ? "run," : "runs,",
                             duration_text(cost.minutes), cost.memory_gib,
                             cost.data == "none" ? "" : "data: " + cost.data);
  }
}

std::vector<rp::Catalogue> selected_catalogues(const std::filesystem::path& recipes,
                                               const Selection& selection) {
  std::vector<rp::Catalogue> catalogues;
  for (const auto& scale : rp::kScales) {
    if (selection.scale && *selection.scale != scale.value) continue;
    catalogues.push_back(rp::read_catalogue(recipes, scale.value));
  }
  return catalogues;
}

std::vector<rp::Exhibit> selected_exhibits(const std::filesystem::path& recipes,
                                           const Selection& selection) {
  if (!selection.name.empty()) {
    auto exhibit = rp::read_exhibit(recipes, selection.name);
    if (selection.scale && !is_at(exhibit, *selection.scale)) {
      throw UsageError(
          fmt::format("{} has no recipe at scale {}", exhibit.name, name(*selection.scale)));
    }
    return {std::move(exhibit)};
  }
  std::vector<rp::Exhibit> exhibits;
  for (const auto& one : rp::exhibit_names(recipes)) {
    auto exhibit = rp::read_exhibit(recipes, one);
    if (!selection.scale || is_at(exhibit, *selection.scale)) {
      exhibits.push_back(std::move(exhibit));
    }
  }
  return exhibits;
}

}  // namespace

void list_exhibits(const std::filesystem::path& recipes, const Selection& selection, bool json) {
  const auto catalogues = selected_catalogues(recipes, selection);
  for (const auto& exhibit : selected_exhibits(recipes, selection)) {
    if (!json) std::cout << fmt::format("{:7} {}\n", exhibit.name, exhibit.title);
    for (const auto& catalogue : catalogues) {
      if (is_at(exhibit, catalogue.scale)) print_line(exhibit, catalogue, json);
    }
    if (json) continue;
    for (const auto& line : absences(exhibit)) std::cout << "  not here: " << line << '\n';
  }
  if (json) return;
  std::cout << "\nTime is that of training everything; runs that are there already, and those that "
               "two recipes share,\nare not trained again. Memory is the largest run's.\n";
  for (const auto& catalogue : catalogues) {
    std::cout << fmt::format("  {:6} {}; {}\n", name(catalogue.scale), catalogue.machine,
                             catalogue.costs);
  }
}

}  // namespace deq::lab::cli

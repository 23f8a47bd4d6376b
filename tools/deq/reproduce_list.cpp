#include "reproduce_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "deq/core/error.h"
#include "output.h"

namespace deq::cli {
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
  for (const auto& one : data) cost.data += (cost.data.empty() ? "" : " ") + std::string(name(one));
  return cost;
}

std::string duration(double minutes) {
  if (minutes < 1.5) return fmt::format("{:.0f} s", minutes * 60);
  if (minutes < 90) return fmt::format("{:.0f} min", minutes);
  return minutes < 60 * 48 ? fmt::format("{:.0f} h", minutes / 60)
                           : fmt::format("{:.0f} days", minutes / (60 * 24));
}

void print_line(const rp::Exhibit& exhibit, const rp::Catalogue& catalogue, bool json) {
  const auto has = [&](const rp::Member& member) { return member.from <= catalogue.scale; };
  if (std::ranges::none_of(exhibit.members, has)) return;
  const auto cost = cost_of(at_scale(exhibit, catalogue), catalogue);
  if (json) {
    std::cout << to_json({{"name", exhibit.name},
                          {"title", exhibit.title},
                          {"scale", std::string(name(catalogue.scale))},
                          {"runs", cost.runs},
                          {"minutes", cost.minutes},
                          {"memory_gib", cost.memory_gib},
                          {"data", cost.data},
                          {"machine", catalogue.machine},
                          {"costs", catalogue.costs}})
              << '\n';
  } else {
    std::cout << fmt::format("  {:6} {:>2} {:5} {:>8}  {:>5.3g} GiB  {}\n", name(catalogue.scale),
                             cost.runs, cost.runs == 1 ? "run," : "runs,", duration(cost.minutes),
                             cost.memory_gib, cost.data == "none" ? "" : "data: " + cost.data);
  }
}

}  // namespace

void list_exhibits(const std::filesystem::path& recipes, bool json) {
  std::vector<rp::Catalogue> catalogues;
  for (const auto& scale : rp::kScales) {
    catalogues.push_back(rp::read_catalogue(recipes, scale.value));
  }
  for (const auto& exhibit_name : rp::exhibit_names(recipes)) {
    const auto exhibit = rp::read_exhibit(recipes, exhibit_name);
    if (!json) std::cout << fmt::format("{:7} {}\n", exhibit.name, exhibit.title);
    for (const auto& catalogue : catalogues) print_line(exhibit, catalogue, json);
  }
  if (json) return;
  std::cout << "\nTime is that of training everything; runs that are there already, and those that "
               "two recipes share,\nare not trained again. Memory is the largest run's.\n";
  for (const auto& catalogue : catalogues) {
    std::cout << fmt::format("  {:6} {}; {}\n", name(catalogue.scale), catalogue.machine,
                             catalogue.costs);
  }
}

}  // namespace deq::cli

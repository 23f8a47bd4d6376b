#include "lab/config/base_file.h"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "deq/lab/base/errors.h"
#include "lab/config/toml_values.h"

namespace deq::lab::config {
namespace {

constexpr std::string_view kBaseKey = "base";

/// Whether `over` chooses another method (solver, model, schedule) than `under`: the keys of the
/// one then have no meaning for the other.
bool chooses_another(const Table& over, const Table& under) {
  for (const std::string_view key : {"name", "schedule"}) {
    const Entry* chosen = over.find(key);
    const Entry* old = under.find(key);
    if (chosen == nullptr || old == nullptr) continue;
    if (value_text(*chosen) != value_text(*old)) return true;
  }
  return false;
}

void lay_over(Table& under, Table over) {
  for (Entry& entry : over.entries) {
    Entry* old = under.find(entry.key);
    if (old == nullptr) {
      under.entries.push_back(std::move(entry));
      continue;
    }
    auto* inner = std::get_if<Table>(&entry.value);
    auto* old_inner = std::get_if<Table>(&old->value);
    if (inner != nullptr && old_inner != nullptr && !chooses_another(*inner, *old_inner)) {
      lay_over(*old_inner, std::move(*inner));
    } else {
      *old = std::move(entry);
    }
  }
}

Table resolve(Table table, const std::string& source, std::vector<std::string>& chain) {
  const auto entry = std::ranges::find(table.entries, kBaseKey, &Entry::key);
  if (entry == table.entries.end()) return table;
  const auto* name = std::get_if<std::string>(&entry->value);
  if (name == nullptr) {
    throw ConfigError(fmt::format("{}: base = {}: must be the path of a file", entry->origin.text,
                                  value_text(*entry)));
  }
  const auto path =
      (std::filesystem::path(source).parent_path() / *name).lexically_normal().string();
  if (std::ranges::find(chain, path) != chain.end()) {
    throw ConfigError(
        fmt::format("{}: base = \"{}\": leads back to itself", entry->origin.text, *name));
  }
  chain.push_back(path);
  std::string text;
  try {
    text = read_config_file(path);
  } catch (const ConfigError& error) {
    throw ConfigError(
        fmt::format("{}: base = \"{}\": {}", entry->origin.text, *name, error.what()));
  }
  table.entries.erase(entry);
  auto under = resolve(parse_toml(text, path), path, chain);
  lay_over(under, std::move(table));
  return under;
}

}  // namespace

Table with_base(Table table, const std::string& source) {
  std::vector<std::string> chain{std::filesystem::path(source).lexically_normal().string()};
  return resolve(std::move(table), source, chain);
}

}  // namespace deq::lab::config

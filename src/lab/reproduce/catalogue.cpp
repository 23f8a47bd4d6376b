#include "lab/reproduce/catalogue.h"

#include <algorithm>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "lab/reproduce/named_tables.h"

namespace deq::lab::reproduce {

using config::Presence;

template <class Visitor>
static void describe(Visitor& v, RunSource& run) {
  v.text("config", run.config, "The file, relative to this one.", Presence::Required);
  v.choice("data", run.data, kData, "What it trains on.");
  v.number("minutes", run.minutes, config::above(0), "Of training.", Presence::Required);
  v.number("memory_gib", run.memory_gib, config::above(0), "At its peak.", Presence::Required);
}

template <class Visitor>
static void describe(Visitor& v, Catalogue& catalogue) {
  v.text("machine", catalogue.machine, "What the costs are for.", Presence::Required);
  v.text("costs", catalogue.costs, "How they are known.", Presence::Required);
}

namespace {

/// "key=value", as --set has it.
std::string override_of(const config::Entry& entry) {
  const auto* text = std::get_if<std::string>(&entry.value);
  const bool plain = !std::holds_alternative<config::Table>(entry.value) &&
                     !std::holds_alternative<config::List>(entry.value);
  require<ConfigError>(plain, "{}: {}: must be a number, a text, true or false", entry.origin.text,
                       entry.key);
  return entry.key + "=" + (text != nullptr ? *text : config::value_text(entry));
}

RunSource read_run(const config::Entry& entry, const std::filesystem::path& folder) {
  auto table = table_of(entry);
  const auto overrides = take_table(table, "set");
  auto run = read_part<RunSource>(std::move(table), entry.origin.text);
  run.name = entry.key;
  run.config = (folder / run.config).lexically_normal().string();
  for (const auto& setting : overrides.entries) run.overrides.push_back(override_of(setting));
  return run;
}

}  // namespace

const RunSource* Catalogue::find(const std::string& run) const {
  const auto found = std::ranges::find(runs, run, &RunSource::name);
  return found == runs.end() ? nullptr : &*found;
}

Catalogue read_catalogue(const std::filesystem::path& folder, Scale scale) {
  const auto path = (folder / fmt::format("runs-{}.toml", name(scale))).string();
  auto root = config::parse_document(config::read_config_file(path), path, {}).root;
  const auto runs = take_table(root, "runs");
  auto catalogue = read_part<Catalogue>(std::move(root), path);
  catalogue.scale = scale;
  for (const auto& entry : runs.entries) catalogue.runs.push_back(read_run(entry, folder));
  return catalogue;
}

}  // namespace deq::lab::reproduce

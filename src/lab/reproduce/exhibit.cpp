#include "lab/reproduce/exhibit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/tasks/experiment.h"
#include "lab/reproduce/named_tables.h"

namespace deq::lab::reproduce {

using config::Presence;

template <class Visitor>
static void describe(Visitor& v, Member& member) {
  v.text("label", member.label, "What it is called.", Presence::Required);
  v.text("run", member.run, "Of the catalogue, where its name is another.");
  v.choice("from", member.from, kScales, "The smallest scale that has it.");
  v.optional_number("stopped", member.stopped, config::at_least(1), "Evaluations.");
  v.text("stopped_like", member.stopped_like, "The run whose number of evaluations it gets.");
}

namespace {

constexpr config::Choice<PlotKind> kPlotKinds[] = {
    {"lines", PlotKind::Lines}, {"points", PlotKind::Points}, {"bars", PlotKind::Bars}};

/// What a table of the file has beside its tables with chosen names.
struct Heading {
  std::string title, about;
  std::vector<int64_t> budgets;
};

/// Names in one text, with spaces between them: the file's lists are of numbers only.
struct Names {
  std::string text;

  std::vector<std::string> split() const {
    std::istringstream words(text);
    return {std::istream_iterator<std::string>(words), {}};
  }
};

struct PlotPart {
  Plot plot;
  Names only;
};

struct TablePart {
  ResultTable table;
  Names only;
};

template <class Visitor>
void describe(Visitor& v, Heading& heading) {
  v.text("title", heading.title, "What it is called.", Presence::Required);
  v.text("about", heading.about, "What the paper reports.", Presence::Required);
  v.whole_numbers("budgets", heading.budgets, config::at_least(1), "Of the sweep.");
}

template <class Visitor>
void describe(Visitor& v, PlotPart& part) {
  v.text("title", part.plot.title, "Above the plot.", Presence::Required);
  v.text("caption", part.plot.caption, "Below it.");
  v.text("x", part.plot.x, "A metric, or \"budget\".");
  v.text("y", part.plot.y, "A metric.", Presence::Required);
  v.text("split", part.plot.split, "Of the metrics.");
  v.choice("kind", part.plot.kind, kPlotKinds, "How it is drawn.");
  v.flag("log", part.plot.log, "Whether y is logarithmic.");
  v.text("only", part.only.text, "Names of runs.");
}

template <class Visitor>
void describe(Visitor& v, TablePart& part) {
  v.text("title", part.table.title, "Above the table.", Presence::Required);
  v.text("caption", part.table.caption, "Below it.");
  v.text("baseline", part.table.baseline, "What \"relative.\" is relative to.");
  v.text("only", part.only.text, "Names of runs.");
}

void require_member(const Exhibit& exhibit, const std::string& name, const config::Entry& where,
                    std::string_view key) {
  const bool known = std::ranges::any_of(exhibit.members,
                                         [&](const Member& member) { return member.name == name; });
  require<ConfigError>(known, "{}: {}.{} names \"{}\", which is no entry of [runs]",
                       where.origin.text, where.key, key, name);
}

Member read_member(const config::Entry& entry) {
  auto member = read_part<Member>(table_of(entry), entry.origin.text);
  member.name = entry.key;
  if (member.run.empty()) member.run = entry.key;
  require<ConfigError>(!member.stopped || member.stopped_like.empty(),
                       "{}: {} has both stopped and stopped_like, must have one", entry.origin.text,
                       entry.key);
  return member;
}

Plot read_plot(const config::Entry& entry, const Exhibit& exhibit) {
  auto part = read_part<PlotPart>(table_of(entry), entry.origin.text);
  part.plot.only = part.only.split();
  for (const auto& member : part.plot.only) require_member(exhibit, member, entry, "only");
  const bool known = part.plot.split == "train" || part.plot.split == "valid";
  require<ConfigError>(known, "{}: {}.split = \"{}\": must be \"train\" or \"valid\"",
                       entry.origin.text, entry.key, part.plot.split);
  return part.plot;
}

ResultTable read_table(const config::Entry& entry, const Exhibit& exhibit) {
  auto table = table_of(entry);
  const auto columns = take_table(table, "columns");
  auto part = read_part<TablePart>(std::move(table), entry.origin.text);
  part.table.only = part.only.split();
  for (const auto& member : part.table.only) require_member(exhibit, member, entry, "only");
  if (!part.table.baseline.empty()) {
    require_member(exhibit, part.table.baseline, entry, "baseline");
  }
  for (const auto& column : columns.entries) {
    const auto* heading = std::get_if<std::string>(&column.value);
    require<ConfigError>(heading != nullptr, "{}: {} = {}: must be the column's heading",
                         column.origin.text, column.key, config::value_text(column));
    require<ConfigError>(!column.key.starts_with("relative.") || !part.table.baseline.empty(),
                         "{}: {} needs the key baseline in [tables.{}]", column.origin.text,
                         column.key, entry.key);
    part.table.columns.emplace_back(column.key, *heading);
  }
  require<ConfigError>(!part.table.columns.empty(),
                       "{}: {} needs a table columns with at least one metric", entry.origin.text,
                       entry.key);
  return part.table;
}

Absentee read_absentee(const config::Entry& entry) {
  const auto* why = std::get_if<std::string>(&entry.value);
  require<ConfigError>(why != nullptr && !why->empty(),
                       "{}: not_here.\"{}\" = {}: must be the reason", entry.origin.text, entry.key,
                       config::value_text(entry));
  return {.label = entry.key, .why = *why};
}

/// That its configuration allows.
int64_t evaluations_of(const RunSource& run, const std::vector<std::string>& overrides) {
  auto settings = run.overrides;
  settings.insert(settings.end(), overrides.begin(), overrides.end());
  return max_evals(read_experiment(run.config, settings).recipe.solver.forward);
}

/// "fig" and 10 of "fig10".
std::pair<std::string, int> sort_key(const std::string& name) {
  const auto digits = std::min(name.find_first_of("0123456789"), name.size());
  return {name.substr(0, digits), std::atoi(name.c_str() + digits)};
}

}  // namespace

std::vector<std::string> exhibit_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto stem = entry.path().stem().string();
    if (entry.path().extension() != ".toml" || stem.starts_with("runs-")) continue;
    names.push_back(stem);
  }
  std::ranges::sort(names, {}, sort_key);
  return names;
}

Exhibit read_exhibit(const std::filesystem::path& folder, const std::string& name) {
  const auto names = exhibit_names(folder);
  std::string allowed;
  for (const auto& known : names) allowed += (allowed.empty() ? "" : ", ") + known;
  require<UsageError>(std::ranges::find(names, name) != names.end(),
                      "there is no recipe \"{}\"; there are: {}", name, allowed);
  const auto path = (folder / (name + ".toml")).string();
  auto root = config::parse_document(config::read_config_file(path), path, {}).root;
  const auto members = take_table(root, "runs");
  const auto plots = take_table(root, "plots");
  const auto tables = take_table(root, "tables");
  const auto not_here = take_table(root, "not_here");
  const auto heading = read_part<Heading>(std::move(root), path);
  Exhibit exhibit{
      .name = name, .title = heading.title, .about = heading.about, .budgets = heading.budgets};
  for (const auto& entry : members.entries) exhibit.members.push_back(read_member(entry));
  require<ConfigError>(!exhibit.members.empty(), "{}: needs at least one table [runs.NAME]", path);
  for (const auto& entry : plots.entries) exhibit.plots.push_back(read_plot(entry, exhibit));
  for (const auto& entry : tables.entries) exhibit.tables.push_back(read_table(entry, exhibit));
  for (const auto& entry : not_here.entries) exhibit.not_here.push_back(read_absentee(entry));
  return exhibit;
}

Exhibit at_scale(Exhibit exhibit, const Catalogue& catalogue,
                 const std::vector<std::string>& overrides) {
  for (const auto& member : exhibit.members) {
    if (member.from <= catalogue.scale) continue;
    exhibit.not_here.push_back(
        {.label = member.label, .why = fmt::format("from scale {} on", name(member.from))});
  }
  std::erase_if(exhibit.members,
                [&](const Member& member) { return member.from > catalogue.scale; });
  require<UsageError>(!exhibit.members.empty(), "{} has no recipe at scale {}, only at larger ones",
                      exhibit.name, name(catalogue.scale));
  const auto source_of = [&](const std::string& run) -> const RunSource& {
    const auto* source = catalogue.find(run);
    require<ConfigError>(source != nullptr,
                         "runs-{}.toml: missing the table [runs.{}], which {} needs",
                         name(catalogue.scale), run, exhibit.name);
    return *source;
  };
  for (auto& member : exhibit.members) {
    source_of(member.run);
    if (member.stopped_like.empty()) continue;
    member.stopped = evaluations_of(source_of(member.stopped_like), overrides);
  }
  return exhibit;
}

std::vector<std::string> absences(const Exhibit& exhibit) {
  std::vector<std::string> lines;
  lines.reserve(exhibit.not_here.size());
  for (const auto& [label, why] : exhibit.not_here) {
    lines.push_back(fmt::format("{} – {}", label, why));
  }
  return lines;
}

std::string label_of(const Exhibit& exhibit, const std::string& run) {
  for (const auto& member : exhibit.members) {
    if (member.run == run && !member.stopped) return member.label;
  }
  return run;
}

std::vector<Member> shown(const Exhibit& exhibit, const std::vector<std::string>& only) {
  if (only.empty()) return exhibit.members;
  std::vector<Member> members;
  for (const auto& member : exhibit.members) {
    if (std::ranges::find(only, member.name) != only.end()) members.push_back(member);
  }
  return members;
}

}  // namespace deq::lab::reproduce

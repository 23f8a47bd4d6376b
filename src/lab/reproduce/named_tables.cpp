#include "lab/reproduce/named_tables.h"

#include <algorithm>

#include "core/require.h"
#include "deq/lab/base/errors.h"

namespace deq::lab::reproduce {

config::Table table_of(const config::Entry& entry) {
  const auto* table = std::get_if<config::Table>(&entry.value);
  require<ConfigError>(table != nullptr, "{}: {} = {}: must be a table", entry.origin.text,
                       entry.key, config::value_text(entry));
  return *table;
}

config::Table take_table(config::Table& parent, std::string_view key) {
  const auto found = std::ranges::find(parent.entries, key, &config::Entry::key);
  if (found == parent.entries.end()) return {};
  auto table = table_of(*found);
  parent.entries.erase(found);
  // The parser sorts by key; what a page shows has the order that was written.
  std::ranges::stable_sort(table.entries, {},
                           [](const config::Entry& entry) { return entry.origin.line; });
  return table;
}

}  // namespace deq::lab::reproduce

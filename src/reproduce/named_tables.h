#pragma once

#include <string>
#include <string_view>

#include "config/document.h"
#include "config/key_collector.h"
#include "config/reader.h"
#include "config/unknown_keys.h"

// Tables whose keys are names that the file chooses, such as [runs.mdeq] and [runs.mdeq-jr].

namespace deq::reproduce {

/// Takes the table `key` out of `parent`, its entries in the order of the file; empty where there
/// is none. Throws ConfigError where the key holds something else.
config::Table take_table(config::Table& parent, std::string_view key);

/// The table that an entry must hold, or a ConfigError.
config::Table table_of(const config::Entry& entry);

/// A table as a struct with a description; `place` is where it was written.
template <class Part>
Part read_part(config::Table table, const std::string& place) {
  const config::Document document{.source = place, .root = std::move(table)};
  Part part;
  config::KeyCollector collector;
  describe(collector, part);
  config::refuse_unknown_keys(document, collector.keys());
  config::Reader reader(document);
  describe(reader, part);
  return part;
}

}  // namespace deq::reproduce

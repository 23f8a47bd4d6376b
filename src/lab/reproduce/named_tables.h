#pragma once

#include <string>
#include <string_view>

#include "lab/config/read_part.h"

// Tables whose keys are names that the file chooses, such as [runs.mdeq] and [runs.mdeq-jr].

namespace deq::lab::reproduce {

/// Takes the table `key` out of `parent`, its entries in the order of the file; empty where there
/// is none. Throws ConfigError where the key holds something else.
config::Table take_table(config::Table& parent, std::string_view key);

/// The table that an entry must hold, or a ConfigError.
config::Table table_of(const config::Entry& entry);

/// A table as a struct with a description; `origin` is where it was written.
template <class Part>
Part read_part(config::Table&& table, const std::string& origin) {
  return config::read_part<Part>({.source = origin, .root = std::move(table)});
}

}  // namespace deq::lab::reproduce

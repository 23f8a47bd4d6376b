#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace deq::lab::config {

/// Where a value was written.
struct Origin {
  std::string text;          ///< "configs/x.toml:12" or "--set train.epochs=3"
  std::string override_key;  ///< "train.epochs", or empty for a value of the file
  int64_t line = 0;          ///< of the file; 0 for an override
};

/// An array. Only those of numbers have a use.
struct List {
  std::optional<std::vector<int64_t>> whole_numbers;  ///< where all of them are whole
  std::optional<std::vector<double>> numbers;
};

/// A kind of TOML value that no key takes (a date), as it appears in messages.
struct OtherValue {
  std::string text;
};

struct Entry;

struct Table {
  std::vector<Entry> entries;

  const Entry* find(std::string_view key) const;
  Entry* find(std::string_view key);
};

struct Entry {
  std::string key;
  std::variant<bool, int64_t, double, std::string, Table, List, OtherValue> value;
  Origin origin{};
  bool chooses_anew = false;  ///< an override that names another method than the file does
};

/// A TOML text laid over its base, with its overrides applied; every value knows where it came
/// from.
struct Document {
  std::string source;
  Table root;
};

/// Throws ConfigError for a syntax error, a malformed override, or one that leads through a value.
Document parse_document(std::string_view text, const std::string& source,
                        const std::vector<std::string>& overrides);

/// read_file, with ConfigError in place of Error.
std::string read_config_file(const std::string& path);

/// A value as messages show it: 3, 0.5, "text", {…}.
std::string value_text(const Entry& entry);

/// "train.epochs" from "train" and "epochs"; the root's path is empty.
std::string join_path(std::string_view parent, std::string_view key);

}  // namespace deq::lab::config

#include "lab/config/document.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"
#include "lab/config/base_file.h"
#include "lab/config/toml_check.h"
#include "lab/config/toml_values.h"
#include "lab/io/number_text.h"

namespace deq::lab::config {
namespace {

constexpr size_t kShownCharacters = 60;

std::string quoted(const std::string& text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, kShownCharacters)) shown += c == '\n' ? ' ' : c;
  return shown + (text.size() > kShownCharacters ? "…\"" : "\"");
}

std::vector<std::string> split_key(std::string_view key) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    names.emplace_back(key.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

// The table at `key` inside `parent`, made where there is nothing yet.
Table& enter(Table& parent, const std::string& key, const std::string& path, const Origin& origin) {
  Entry* entry = parent.find(key);
  if (entry == nullptr) {
    entry = &parent.entries.emplace_back(Entry{.key = key, .value = Table{}, .origin = origin});
  }
  auto* table = std::get_if<Table>(&entry->value);
  if (table == nullptr) {
    throw ConfigError(
        fmt::format("{}: {} = {} is not a table", origin.text, path, value_text(*entry)));
  }
  return *table;
}

void apply_override(Table& root, const std::string& text) {
  const size_t equals = text.find('=');
  Origin origin{.text = "--set " + text, .override_key = trimmed(text.substr(0, equals))};
  if (static_cast<size_t>(std::ranges::count(origin.override_key, '.')) >= kMostKeyParts) {
    throw ConfigError(
        fmt::format("--set {}: a key of more than {} parts", quoted(text), kMostKeyParts));
  }
  const std::vector<std::string> names = split_key(origin.override_key);
  const bool well_formed = equals != std::string::npos &&
                           std::none_of(names.begin(), names.end(),
                                        [](const std::string& name) { return name.empty(); });
  if (!well_formed) {
    throw ConfigError(origin.text + ": must look like key=value, such as train.epochs=10");
  }
  Table* table = &root;
  std::string path;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    path = join_path(path, names[i]);
    table = &enter(*table, names[i], path, origin);
  }
  const std::string value = trimmed(std::string_view(text).substr(equals + 1));
  Entry entry =
      parse_toml_value(value, origin).value_or(Entry{.key = {}, .value = value, .origin = origin});
  entry.key = names.back();
  Entry* old = table->find(entry.key);
  if (old != nullptr) {
    entry.chooses_anew = old->chooses_anew || value_text(*old) != value_text(entry);
    *old = std::move(entry);
  } else {
    table->entries.push_back(std::move(entry));
  }
}

}  // namespace

const Entry* Table::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [key](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

Entry* Table::find(std::string_view key) {
  return const_cast<Entry*>(std::as_const(*this).find(key));
}

Document parse_document(std::string_view text, const std::string& source,
                        const std::vector<std::string>& overrides) {
  Document document{.source = source, .root = with_base(parse_toml(text, source), source)};
  for (const std::string& override_text : overrides) apply_override(document.root, override_text);
  return document;
}

std::string read_config_file(const std::string& path) {
  try {
    return read_file(path);
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
}

std::string value_text(const Entry& entry) {
  struct {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return io::number_text(value); }
    std::string operator()(const std::string& value) const { return quoted(value); }
    std::string operator()(const Table&) const { return "{…}"; }
    std::string operator()(const List&) const { return "[…]"; }
    std::string operator()(const OtherValue& value) const { return value.text; }
  } text;
  return std::visit(text, entry.value);
}

std::string join_path(std::string_view parent, std::string_view key) {
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

}  // namespace deq::lab::config

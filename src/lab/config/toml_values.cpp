#include "lab/config/toml_values.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <functional>

#include "deq/lab/base/errors.h"
#include "lab/config/toml_check.h"

namespace deq::lab::config {
namespace {

using OriginOf = std::function<Origin(const toml::node&)>;

Table convert(const toml::table& table, const OriginOf& origin_of);

List convert(const toml::array& array) {
  std::vector<int64_t> whole_numbers;
  std::vector<double> numbers;
  for (const auto& node : array) {
    if (!node.is_number()) return {};
    if (const auto* whole = node.as_integer()) whole_numbers.push_back(whole->get());
    numbers.push_back(*node.value<double>());
  }
  if (whole_numbers.size() != numbers.size()) return {.whole_numbers = {}, .numbers = numbers};
  return {.whole_numbers = whole_numbers, .numbers = numbers};
}

Entry convert(std::string key, const toml::node& node, const OriginOf& origin_of) {
  Entry entry{
      .key = std::move(key), .value = OtherValue{"a date or time"}, .origin = origin_of(node)};
  if (const auto* flag = node.as_boolean()) entry.value = flag->get();
  if (const auto* whole = node.as_integer()) entry.value = whole->get();
  if (const auto* number = node.as_floating_point()) entry.value = number->get();
  if (const auto* text = node.as_string()) entry.value = text->get();
  if (const auto* table = node.as_table()) entry.value = convert(*table, origin_of);
  if (const auto* array = node.as_array()) entry.value = convert(*array);
  return entry;
}

Table convert(const toml::table& table, const OriginOf& origin_of) {
  Table converted;
  for (auto&& [key, node] : table) {
    const std::string_view name = key;
    converted.entries.push_back(convert(std::string(name), node, origin_of));
  }
  return converted;
}

}  // namespace

Table parse_toml(std::string_view text, const std::string& source) {
  check_toml(text, source);
  try {
    return convert(toml::parse(text), [&source](const toml::node& node) {
      const int64_t line = node.source().begin.line;
      return Origin{.text = fmt::format("{}:{}", source, line), .override_key = {}, .line = line};
    });
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}:{}: not valid TOML: {}", source, error.source().begin.line,
                                  error.description()));
  }
}

std::optional<Entry> parse_toml_value(const std::string& text, const Origin& origin) {
  try {
    // Inside brackets, so that neither a comment nor a second key can hide behind the value.
    const std::string document = "value = [" + text + "]";
    check_toml(document, origin.text);
    const toml::table table = toml::parse(document);
    const toml::array* array = table.size() == 1 ? table.get_as<toml::array>("value") : nullptr;
    if (array == nullptr || array->size() != 1) return std::nullopt;
    return convert({}, *array->get(0), [&origin](const toml::node&) { return origin; });
  } catch (const ConfigError&) {
    return std::nullopt;
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace deq::lab::config

#include "lab/config/reader.h"

#include <fmt/format.h>
#include <algorithm>

#include "deq/lab/base/errors.h"

namespace deq::lab::config {

void Reader::schedule(std::string_view key, Schedule& schedule, const Range& range,
                      std::string_view /*help*/) {
  const Entry* entry = find(key);
  if (entry == nullptr) return;
  if (std::holds_alternative<Table>(entry->value)) {
    schedule = Schedule{};
    inside(key, [&] { describe_schedule(*this, schedule, range); });
  } else {
    schedule = Schedule{.shape = ConstantSchedule{.value = read_float(*entry, key, range)}};
  }
}

bool Reader::Alternative::owns(std::string_view key) const {
  return std::any_of(keys.begin(), keys.end(),
                     [key](const KnownKey& own) { return own.path == key; });
}

const Entry* Reader::find(std::string_view key) const {
  return table_ == nullptr ? nullptr : table_->find(key);
}

const Entry* Reader::find_required(std::string_view key, const std::string& allowed_values) const {
  const Entry* entry = find(key);
  if (entry == nullptr) {
    throw ConfigError(fmt::format("{}: missing key \"{}\", which must be {}", table_origin_,
                                  join_path(path_, key), allowed_values));
  }
  return entry;
}

int64_t Reader::read_whole(const Entry& entry, std::string_view key, const Range& range) const {
  const auto* value = std::get_if<int64_t>(&entry.value);
  if (value == nullptr || !range.contains(static_cast<double>(*value))) {
    refuse(entry, key, allowed_whole(range));
  }
  return *value;
}

double Reader::read_float(const Entry& entry, std::string_view key, const Range& range) const {
  std::optional<double> value;
  if (const auto* number = std::get_if<double>(&entry.value)) value = *number;
  if (const auto* whole = std::get_if<int64_t>(&entry.value)) value = static_cast<double>(*whole);
  if (!value || !range.contains(*value)) refuse(entry, key, allowed_number(range));
  return *value;
}

std::vector<int64_t> Reader::read_whole_numbers(const Entry& entry, std::string_view key,
                                                const Range& range) const {
  const auto* list = std::get_if<List>(&entry.value);
  const auto allowed_one = [&range](int64_t value) {
    return range.contains(static_cast<double>(value));
  };
  if (list == nullptr || !list->whole_numbers ||
      !std::all_of(list->whole_numbers->begin(), list->whole_numbers->end(), allowed_one)) {
    refuse(entry, key, allowed_list<int64_t>(range));
  }
  return *list->whole_numbers;
}

std::pair<int64_t, int64_t> Reader::read_span(const Entry& entry, std::string_view key,
                                              const Range& range) const {
  std::vector<int64_t> ends;
  if (const auto* width = std::get_if<int64_t>(&entry.value); width != nullptr && *width >= 0) {
    ends = {-*width, *width};
  } else if (const auto* list = std::get_if<List>(&entry.value);
             list != nullptr && list->whole_numbers) {
    ends = *list->whole_numbers;
  }
  const bool usable = ends.size() == 2 && ends[0] <= ends[1] &&
                      range.contains(static_cast<double>(ends[0])) &&
                      range.contains(static_cast<double>(ends[1]));
  if (!usable) refuse(entry, key, allowed_span(range));
  return {ends[0], ends[1]};
}

std::vector<double> Reader::read_numbers(const Entry& entry, std::string_view key,
                                         const Range& range) const {
  const auto* list = std::get_if<List>(&entry.value);
  if (list == nullptr || !list->numbers ||
      !std::all_of(list->numbers->begin(), list->numbers->end(),
                   [&range](double value) { return range.contains(value); })) {
    refuse(entry, key, allowed_list<double>(range));
  }
  return *list->numbers;
}

std::string Reader::read_text(const Entry& entry, std::string_view key) const {
  const auto* value = std::get_if<std::string>(&entry.value);
  if (value == nullptr || value->empty()) refuse(entry, key, std::string(kAllowedText));
  return *value;
}

bool Reader::read_flag(const Entry& entry, std::string_view key) const {
  const auto* value = std::get_if<bool>(&entry.value);
  if (value == nullptr) refuse(entry, key, "true or false");
  return *value;
}

size_t Reader::read_name(const Entry& entry, std::string_view key,
                         const std::vector<std::string_view>& names) const {
  const auto* value = std::get_if<std::string>(&entry.value);
  const auto found = value == nullptr ? names.end() : std::find(names.begin(), names.end(), *value);
  if (found == names.end()) refuse(entry, key, allowed_names(names));
  return static_cast<size_t>(found - names.begin());
}

bool Reader::blames_low(std::string_view low_key, std::string_view high_key) const {
  const Entry* low = find(low_key);
  const Entry* high = find(high_key);
  if (low == nullptr || high == nullptr) return high == nullptr;
  return !low->origin.override_key.empty() && high->origin.override_key.empty();
}

void Reader::refuse_order(std::string_view key, const std::string& comparison,
                          std::string_view other_key, const std::string& other_value) const {
  // The defaults are in order, so a violation has at least one of the two in the document.
  refuse(*find(key), key, comparison + join_path(path_, other_key) + " = " + other_value);
}

void Reader::refuse_keys_of_others(std::string_view key, const std::vector<Alternative>& all,
                                   size_t active) const {
  if (table_ == nullptr) return;
  for (const Entry& entry : table_->entries) {
    if (all[active].owns(entry.key)) continue;
    std::vector<std::string_view> owners;
    for (const Alternative& alternative : all) {
      if (alternative.owns(entry.key)) owners.push_back(alternative.name);
    }
    if (owners.empty()) continue;
    std::string own_keys;
    for (const KnownKey& own : all[active].keys) {
      own_keys += (own_keys.empty() ? "whose own keys are: " : ", ") + own.path;
    }
    throw ConfigError(fmt::format("{}: this key goes with {} = {}, not with \"{}\" ({})",
                                  subject(entry, entry.key), join_path(path_, key),
                                  allowed_names(owners), all[active].name,
                                  own_keys.empty() ? "which has no keys of its own" : own_keys));
  }
}

Table Reader::overridden(const std::vector<Alternative>& all) const {
  Table kept;
  for (const Entry& entry : table_->entries) {
    const auto owns = [&entry](const Alternative& one) { return one.owns(entry.key); };
    const bool of_the_file = entry.origin.override_key.empty();
    if (!of_the_file || std::none_of(all.begin(), all.end(), owns)) kept.entries.push_back(entry);
  }
  return kept;
}

std::string Reader::subject(const Entry& entry, std::string_view key) const {
  const std::string path = join_path(path_, key);
  if (entry.origin.override_key == path) return entry.origin.text;
  return fmt::format("{}: {} = {}", entry.origin.text, path, value_text(entry));
}

void Reader::refuse(const Entry& entry, std::string_view key,
                    const std::string& allowed_values) const {
  throw ConfigError(fmt::format("{}: must be {}", subject(entry, key), allowed_values));
}

}  // namespace deq::lab::config

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lab/config/description.h"
#include "lab/config/document.h"
#include "lab/config/key_collector.h"
#include "lab/config/number_toml.h"
#include "lab/config/schedule.h"

namespace deq::lab::config {

/// The visitor that reads a document into the members, and throws ConfigError for what it cannot
/// use. A key that the document lacks leaves its member as it is.
class Reader {
 public:
  explicit Reader(const Document& document)
      : table_(&document.root), table_origin_(document.source) {}

  /// A key that must be there, and one of the names.
  std::string_view required_name(std::string_view key, const std::vector<std::string_view>& names) {
    return names[read_name(*find_required(key, allowed_names(names)), key, names)];
  }

  void constant(std::string_view key, std::string_view value, std::string_view /*help*/) {
    required_name(key, {value});
  }

  template <class Number>
  void number(std::string_view key, Number& member, const Range& range, std::string_view /*help*/,
              Presence presence = Presence::Optional) {
    const Entry* entry =
        presence == Presence::Required ? find_required(key, allowed<Number>(range)) : find(key);
    if (entry != nullptr) member = read_number<Number>(*entry, key, range);
  }

  template <class Number>
  void optional_number(std::string_view key, std::optional<Number>& member, const Range& range,
                       std::string_view /*help*/) {
    const Entry* entry = find(key);
    if (entry != nullptr) member = read_number<Number>(*entry, key, range);
  }

  void whole_numbers(std::string_view key, std::vector<int64_t>& member, const Range& range,
                     std::string_view /*help*/) {
    const Entry* entry = find(key);
    if (entry != nullptr) member = read_whole_numbers(*entry, key, range);
  }

  template <class Ends>
  void span(std::string_view key, Ends& member, const Range& range, std::string_view /*help*/) {
    const Entry* entry = find(key);
    if (entry == nullptr) return;
    const auto [low, high] = read_span(*entry, key, range);
    member.low = low;
    member.high = high;
  }

  void numbers(std::string_view key, std::vector<double>& member, const Range& range,
               std::string_view /*help*/) {
    const Entry* entry = find(key);
    if (entry != nullptr) member = read_numbers(*entry, key, range);
  }

  void text(std::string_view key, std::string& member, std::string_view /*help*/,
            Presence presence = Presence::Optional) {
    const Entry* entry =
        presence == Presence::Required ? find_required(key, std::string(kAllowedText)) : find(key);
    if (entry != nullptr) member = read_text(*entry, key);
  }

  void flag(std::string_view key, bool& member, std::string_view /*help*/) {
    const Entry* entry = find(key);
    if (entry != nullptr) member = read_flag(*entry, key);
  }

  template <class Enum, size_t N>
  void choice(std::string_view key, Enum& member, const Choice<Enum> (&choices)[N],
              std::string_view /*help*/) {
    const Entry* entry = find(key);
    if (entry != nullptr) member = choices[read_name(*entry, key, names_of(choices))].value;
  }

  template <class Number>
  void in_order(std::string_view low_key, const Number& low, Relation relation,
                std::string_view high_key, const Number& high) {
    const bool ok = relation == Relation::Less ? low < high : low <= high;
    if (ok) return;
    const bool strict = relation == Relation::Less;
    // The later word is the wrong one: an override's, or else that of the upper end.
    if (blames_low(low_key, high_key)) {
      refuse_order(low_key, strict ? "below " : "at most ", high_key, number_toml(high));
    }
    refuse_order(high_key, strict ? "above " : "at least ", low_key, number_toml(low));
  }

  void schedule(std::string_view key, Schedule& schedule, const Range& range,
                std::string_view help);

  template <class Part>
  void table(std::string_view key, Part& part, std::string_view /*help*/) {
    inside(key, [&] { describe(*this, part); });
  }

  template <class Variant>
  void select(std::string_view key, Variant& variant, std::string_view /*help*/,
              Presence presence = Presence::Optional) {
    const auto names = alternative_names<Variant>();
    const Entry* entry =
        presence == Presence::Required ? find_required(key, allowed_names(names)) : find(key);
    if (entry == nullptr) return;
    const size_t chosen = read_name(*entry, key, names);
    if (chosen == variant.index()) return;
    const Variant old = variant;
    for_each_alternative<Variant>([&](auto alternative) {
      Variant candidate = std::move(alternative);
      if (candidate.index() == chosen) variant = std::move(candidate);
    });
    Alternatives<Variant>::carry_over(old, variant);
  }

  template <class Variant, class Body>
  void alternatives(std::string_view key, Variant& variant, Body body) {
    std::vector<Alternative> all;
    for_each_alternative<Variant>([&](auto alternative) {
      KeyCollector collector;
      body(collector, alternative);
      all.push_back({Alternatives<Variant>::name(Variant(alternative)), collector.keys()});
    });
    // What the file says of the method that an override has replaced has no meaning any more.
    const Entry* name = find(key);
    const bool anew = name != nullptr && name->chooses_anew;
    const Table without_the_files = anew ? overridden(all) : Table();
    const Table* const whole = anew ? std::exchange(table_, &without_the_files) : table_;
    refuse_keys_of_others(key, all, variant.index());
    std::visit([&](auto& active) { body(*this, active); }, variant);
    table_ = whole;
  }

 private:
  struct Alternative {
    std::string_view name;
    std::vector<KnownKey> keys;

    bool owns(std::string_view key) const;
  };

  const Entry* find(std::string_view key) const;
  const Entry* find_required(std::string_view key, const std::string& allowed_values) const;

  template <class Number>
  Number read_number(const Entry& entry, std::string_view key, const Range& range) const {
    if constexpr (std::is_integral_v<Number>) {
      return static_cast<Number>(read_whole(entry, key, range));
    } else {
      return read_float(entry, key, range);
    }
  }
  int64_t read_whole(const Entry& entry, std::string_view key, const Range& range) const;
  double read_float(const Entry& entry, std::string_view key, const Range& range) const;
  std::vector<int64_t> read_whole_numbers(const Entry& entry, std::string_view key,
                                          const Range& range) const;
  std::pair<int64_t, int64_t> read_span(const Entry& entry, std::string_view key,
                                        const Range& range) const;
  std::vector<double> read_numbers(const Entry& entry, std::string_view key,
                                   const Range& range) const;
  std::string read_text(const Entry& entry, std::string_view key) const;
  bool read_flag(const Entry& entry, std::string_view key) const;
  size_t read_name(const Entry& entry, std::string_view key,
                   const std::vector<std::string_view>& names) const;

  bool blames_low(std::string_view low_key, std::string_view high_key) const;
  [[noreturn]] void refuse_order(std::string_view key, const std::string& comparison,
                                 std::string_view other_key, const std::string& other_value) const;
  void refuse_keys_of_others(std::string_view key, const std::vector<Alternative>& all,
                             size_t active) const;
  /// The table without what the file says about keys that alternatives own.
  Table overridden(const std::vector<Alternative>& all) const;

  /// "<origin>: <path> = <value>", without what the origin already says.
  std::string subject(const Entry& entry, std::string_view key) const;
  [[noreturn]] void refuse(const Entry& entry, std::string_view key,
                           const std::string& allowed_values) const;

  /// Moves into the table at `key`, an empty one where the document has none, and back.
  template <class Body>
  void inside(std::string_view key, Body body) {
    const Entry* entry = find(key);
    const auto* inner = entry == nullptr ? nullptr : std::get_if<Table>(&entry->value);
    if (entry != nullptr && inner == nullptr) refuse(*entry, key, "a table");
    Reader reader = *this;
    std::swap(*this, reader);
    path_ = join_path(path_, key);
    table_ = inner;
    if (entry != nullptr) table_origin_ = entry->origin.text;
    body();
    std::swap(*this, reader);
  }

  const Table* table_;  // where the description is now; null where the document has nothing
  std::string table_origin_;
  std::string path_;
};

}  // namespace deq::lab::config

#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

// A configuration is described once, by functions describe(visitor, part) that name every key with
// its member, its range and its meaning. Reading, writing and the reference are visitors of that
// one description. What a description may call on its visitor:
//
// - constant(key, value, help): a required key with one allowed text
// - number(key, member, range, help): int64_t, int or double; one more argument makes it required
// - optional_number(key, member, range, help): one that may be left out
// - whole_numbers(key, member, range, help): a list
// - span(key, member, range, help): low and high of a struct, from [low, high] or n, for [−n, n]
// - numbers(key, member, range, help): a list of finite numbers
// - text(key, member, help): one that is not empty
// - flag(key, member, help): true or false
// - choice(key, member, choices, help): an enum, by name
// - in_order(low_key, low, relation, high_key, high): a condition between two keys
// - schedule(key, member, range, help): a number, or a table that describes a Schedule
// - table(key, part, help): describe(visitor, part) under [key]
// - select(key, variant, help): which alternative the variant holds, by name
// - alternatives(key, variant, body): body(visitor, alternative), the keys of the one selected
//
// Within a table, plain keys come before tables, because TOML wants them so.

namespace deq::lab::config {

enum class Presence { Optional, Required };

enum class Relation { Less, AtMost };

/// An interval of numbers, open or closed at either end.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;

  /// False for what is not finite.
  bool contains(double value) const;
  /// "≥ 1", "in (0, 1]"; empty when every finite number is allowed.
  std::string text() const;
};

constexpr Range any_number() {
  return {};
}
constexpr Range at_least(double low) {
  return {.low = low};
}
constexpr Range above(double low) {
  return {.low = low, .low_open = true};
}
/// [low, high]
constexpr Range between(double low, double high) {
  return {.low = low, .high = high};
}
/// (low, high]
constexpr Range above_up_to(double low, double high) {
  return {.low = low, .high = high, .low_open = true};
}
/// [low, high)
constexpr Range from_to_below(double low, double high) {
  return {.low = low, .high = high, .high_open = true};
}

/// (low, high)
constexpr Range strictly_between(double low, double high) {
  return {.low = low, .high = high, .low_open = true, .high_open = true};
}

/// "a whole number ≥ 1", "a finite number in (0, 1]".
std::string allowed_whole(const Range& range);
std::string allowed_number(const Range& range);

inline constexpr std::string_view kAllowedText = "a text that is not empty";

/// "a list of whole numbers ≥ 1", "a list of finite numbers > 0".
std::string allowed_list(std::string_view kind, const Range& range);

/// "a whole number n ≥ 0, or a list [low, high] of two in …".
std::string allowed_span(const Range& range);

template <class Number>
std::string allowed_list(const Range& range) {
  return allowed_list(std::is_integral_v<Number> ? "whole" : "finite", range);
}

template <class Number>
std::string allowed(const Range& range) {
  return std::is_integral_v<Number> ? allowed_whole(range) : allowed_number(range);
}

/// "\"a\"", "\"a\" or \"b\"", "one of \"a\", \"b\", \"c\"".
std::string allowed_names(const std::vector<std::string_view>& names);

template <class Enum>
struct Choice {
  std::string_view name;
  Enum value;
};

template <class Enum, size_t N>
std::vector<std::string_view> names_of(const Choice<Enum> (&choices)[N]) {
  std::vector<std::string_view> names;
  for (const auto& choice : choices) names.push_back(choice.name);
  return names;
}

template <class Enum, size_t N>
std::string_view name_of(Enum value, const Choice<Enum> (&choices)[N]) {
  for (const auto& choice : choices) {
    if (choice.value == value) return choice.name;
  }
  return {};
}

/// Calls body(alternative) with a default-made one of each type the variant may hold.
template <class Variant, class Body>
void for_each_alternative(Body&& body) {
  [&body]<size_t... I>(std::index_sequence<I...>) {
    (body(std::variant_alternative_t<I, Variant>{}), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>{});
}

/// Specialised next to the description of each variant:
///   static std::string_view name(const Variant&)             of the alternative it holds
///   static void carry_over(const Variant& from, Variant& to)   what stays when `to` replaces
///   `from`
template <class Variant>
struct Alternatives;

template <class Variant>
std::vector<std::string_view> alternative_names() {
  std::vector<std::string_view> names;
  for_each_alternative<Variant>([&names](auto alternative) {
    names.push_back(Alternatives<Variant>::name(Variant(std::move(alternative))));
  });
  return names;
}

}  // namespace deq::lab::config

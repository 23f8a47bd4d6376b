#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "lab/config/description.h"
#include "lab/config/document.h"
#include "lab/config/number_toml.h"
#include "lab/config/schedule.h"

namespace deq::lab::config {

inline std::string string_toml(std::string_view name) {
  return '"' + std::string(name) + '"';
}

/// Any text, with what TOML's strings must escape.
std::string text_toml(std::string_view text);

/// A schedule as the value of a key: a number where that says it all, or else an inline table.
std::string schedule_toml(const Schedule& schedule);

/// The visitor that writes every member as TOML.
class Writer {
 public:
  const std::string& text() const { return text_; }

  void constant(std::string_view key, std::string_view value, std::string_view /*help*/) {
    write(key, string_toml(value));
  }

  template <class Number>
  void number(std::string_view key, const Number& member, const Range&, std::string_view /*help*/,
              Presence = Presence::Optional) {
    write(key, number_toml(member));
  }

  template <class Number>
  void optional_number(std::string_view key, const std::optional<Number>& member, const Range&,
                       std::string_view /*help*/) {
    if (member) write(key, number_toml(*member));
  }

  void whole_numbers(std::string_view key, const std::vector<int64_t>& member, const Range&,
                     std::string_view /*help*/) {
    write(key, list_toml(member));
  }

  template <class Ends>
  void span(std::string_view key, const Ends& member, const Range&, std::string_view /*help*/) {
    write(key, span_toml(member));
  }

  void numbers(std::string_view key, const std::vector<double>& member, const Range&,
               std::string_view /*help*/) {
    write(key, list_toml(member));
  }

  void text(std::string_view key, const std::string& member, std::string_view /*help*/,
            Presence = Presence::Optional) {
    if (!member.empty()) write(key, text_toml(member));
  }

  void flag(std::string_view key, bool member, std::string_view /*help*/) {
    write(key, member ? "true" : "false");
  }

  template <class Enum, size_t N>
  void choice(std::string_view key, Enum member, const Choice<Enum> (&choices)[N],
              std::string_view /*help*/) {
    write(key, string_toml(name_of(member, choices)));
  }

  template <class Number>
  void in_order(std::string_view, const Number&, Relation, std::string_view, const Number&) {}

  void schedule(std::string_view key, const Schedule& schedule, const Range&, std::string_view) {
    write(key, schedule_toml(schedule));
  }

  template <class Part>
  void table(std::string_view key, Part& part, std::string_view /*help*/) {
    const std::string outer = std::exchange(path_, join_path(path_, key));
    header_written_ = false;
    describe(*this, part);
    path_ = outer;
  }

  template <class Variant>
  void select(std::string_view key, const Variant& variant, std::string_view /*help*/,
              Presence = Presence::Optional) {
    write(key, string_toml(Alternatives<Variant>::name(variant)));
  }

  template <class Variant, class Body>
  void alternatives(std::string_view, Variant& variant, Body body) {
    std::visit([&](auto& active) { body(*this, active); }, variant);
  }

 private:
  void write(std::string_view key, const std::string& value);

  std::string text_;
  std::string path_;
  bool header_written_ = true;  // the root has none
};

}  // namespace deq::lab::config

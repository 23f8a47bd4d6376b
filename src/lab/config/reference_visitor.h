#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "lab/config/description.h"
#include "lab/config/document.h"
#include "lab/config/schedule.h"
#include "lab/config/writer.h"

namespace deq::lab::config {

/// The visitor that writes a Markdown table for every TOML table, with the members as defaults.
class ReferenceVisitor {
 public:
  const std::string& text() const { return text_; }

  /// Starts a table of keys under a title.
  void section(const std::string& title, std::string_view help);

  void constant(std::string_view key, std::string_view value, std::string_view help) {
    row(key, allowed_names({value}), kRequired, help);
  }

  template <class Number>
  void number(std::string_view key, const Number& member, const Range& range, std::string_view help,
              Presence presence = Presence::Optional) {
    row(key, allowed<Number>(range),
        presence == Presence::Required ? kRequired : code(number_toml(member)), help);
  }

  template <class Number>
  void optional_number(std::string_view key, const std::optional<Number>& member,
                       const Range& range, std::string_view help) {
    row(key, allowed<Number>(range), member ? code(number_toml(*member)) : "none", help);
  }

  void whole_numbers(std::string_view key, const std::vector<int64_t>& member, const Range& range,
                     std::string_view help) {
    row(key, allowed_list<int64_t>(range), code(list_toml(member)), help);
  }

  template <class Ends>
  void span(std::string_view key, const Ends& member, const Range& range, std::string_view help) {
    row(key, allowed_span(range), code(span_toml(member)), help);
  }

  void numbers(std::string_view key, const std::vector<double>& member, const Range& range,
               std::string_view help) {
    row(key, allowed_list<double>(range), code(list_toml(member)), help);
  }

  void text(std::string_view key, const std::string& member, std::string_view help,
            Presence presence = Presence::Optional) {
    const std::string fallback = member.empty() ? "none" : code(text_toml(member));
    row(key, std::string(kAllowedText), presence == Presence::Required ? kRequired : fallback,
        help);
  }

  void flag(std::string_view key, bool member, std::string_view help) {
    row(key, "true or false", code(member ? "true" : "false"), help);
  }

  template <class Enum, size_t N>
  void choice(std::string_view key, Enum member, const Choice<Enum> (&choices)[N],
              std::string_view help) {
    row(key, allowed_names(names_of(choices)), code(string_toml(name_of(member, choices))), help);
  }

  template <class Number>
  void in_order(std::string_view, const Number&, Relation, std::string_view, const Number&) {}

  void schedule(std::string_view key, const Schedule& schedule, const Range& range,
                std::string_view help) {
    row(key, allowed_number(range) + ", or a [schedule](#schedules)", code(schedule_toml(schedule)),
        help);
  }

  template <class Part>
  void table(std::string_view key, Part& part, std::string_view help) {
    const std::string outer = std::exchange(path_, join_path(path_, key));
    section(code("[" + path_ + "]"), help);
    describe(*this, part);
    path_ = outer;
  }

  template <class Variant>
  void select(std::string_view key, const Variant& variant, std::string_view help,
              Presence presence = Presence::Optional) {
    row(key, allowed_names(alternative_names<Variant>()),
        presence == Presence::Required ? kRequired
                                       : code(string_toml(Alternatives<Variant>::name(variant))),
        help);
  }

  template <class Variant, class Body>
  void alternatives(std::string_view, Variant& variant, Body body) {
    for_each_alternative<Variant>([&](auto alternative) {
      if (auto* active = std::get_if<decltype(alternative)>(&variant)) alternative = *active;
      owner_ = Alternatives<Variant>::name(Variant(alternative));
      body(*this, alternative);
      owner_.clear();
    });
  }

 private:
  static constexpr const char* kRequired = "required";

  static std::string code(const std::string& text) { return "`" + text + "`"; }

  void row(std::string_view key, const std::string& allowed_values, const std::string& fallback,
           std::string_view help);

  std::string text_;
  std::string path_;
  std::string pending_head_;  // of the section; one without rows is left out
  std::string owner_;         // the alternative whose keys are being described
};

}  // namespace deq::lab::config

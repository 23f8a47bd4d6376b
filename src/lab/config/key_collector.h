#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/config/description.h"
#include "lab/config/document.h"
#include "lab/config/schedule.h"

namespace deq::lab::config {

/// A key that a description names, with its full path.
struct KnownKey {
  std::string path;
  bool may_be_table = false;
};

/// The visitor that gathers all keys, those of every alternative included.
class KeyCollector {
 public:
  const std::vector<KnownKey>& keys() const { return keys_; }

  void constant(std::string_view key, std::string_view, std::string_view) { add(key); }

  template <class Number>
  void number(std::string_view key, Number&, const Range&, std::string_view,
              Presence = Presence::Optional) {
    add(key);
  }

  template <class Number>
  void optional_number(std::string_view key, std::optional<Number>&, const Range&,
                       std::string_view) {
    add(key);
  }

  void whole_numbers(std::string_view key, std::vector<int64_t>&, const Range&, std::string_view) {
    add(key);
  }

  template <class Ends>
  void span(std::string_view key, Ends&, const Range&, std::string_view) {
    add(key);
  }

  void numbers(std::string_view key, std::vector<double>&, const Range&, std::string_view) {
    add(key);
  }

  void text(std::string_view key, std::string&, std::string_view, Presence = Presence::Optional) {
    add(key);
  }

  void flag(std::string_view key, bool&, std::string_view) { add(key); }

  template <class Enum, size_t N>
  void choice(std::string_view key, Enum&, const Choice<Enum> (&)[N], std::string_view) {
    add(key);
  }

  template <class Number>
  void in_order(std::string_view, const Number&, Relation, std::string_view, const Number&) {}

  void schedule(std::string_view key, Schedule& schedule, const Range& range, std::string_view) {
    inside(key, [&] { describe_schedule(*this, schedule, range); });
  }

  template <class Part>
  void table(std::string_view key, Part& part, std::string_view) {
    inside(key, [&] { describe(*this, part); });
  }

  template <class Variant>
  void select(std::string_view key, Variant&, std::string_view, Presence = Presence::Optional) {
    add(key);
  }

  template <class Variant, class Body>
  void alternatives(std::string_view, Variant&, Body body) {
    for_each_alternative<Variant>([&](auto alternative) { body(*this, alternative); });
  }

 private:
  void add(std::string_view key, bool may_be_table = false) {
    std::string path = join_path(path_, key);
    const auto same = [&path](const KnownKey& known) { return known.path == path; };
    // Alternatives may share a key.
    if (std::none_of(keys_.begin(), keys_.end(), same)) {
      keys_.push_back({.path = std::move(path), .may_be_table = may_be_table});
    }
  }

  template <class Body>
  void inside(std::string_view key, Body body) {
    add(key, /*may_be_table=*/true);
    const std::string outer = std::exchange(path_, join_path(path_, key));
    body();
    path_ = outer;
  }

  std::vector<KnownKey> keys_;
  std::string path_;
};

}  // namespace deq::lab::config

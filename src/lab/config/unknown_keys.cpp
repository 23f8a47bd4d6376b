#include "lab/config/unknown_keys.h"

#include <fmt/format.h>
#include <algorithm>
#include <tuple>

#include "deq/lab/base/errors.h"
#include "lab/base/likely_name.h"

namespace deq::lab::config {
namespace {

struct UnknownKey {
  std::string path;
  Origin origin;
};

std::string_view parent_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view last_of(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

void collect(const Table& table, const std::string& parent, const std::vector<KnownKey>& known,
             std::vector<UnknownKey>& unknown) {
  for (const Entry& entry : table.entries) {
    const std::string path = join_path(parent, entry.key);
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&path](const KnownKey& key) { return key.path == path; });
    const auto* inner = std::get_if<Table>(&entry.value);
    if (found == known.end()) {
      unknown.push_back({.path = path, .origin = entry.origin});
    } else if (inner != nullptr && found->may_be_table) {
      collect(*inner, path, known, unknown);
    }
  }
}

// A neighbour with a similar name, or the same name elsewhere; empty when nothing comes close.
std::string suggestion(const std::string& path, const std::vector<KnownKey>& known) {
  constexpr size_t kNone = 1'000'000;
  const std::string_view name = last_of(path);
  const size_t close = close_enough(name);
  std::pair<size_t, std::string> best{kNone, ""};
  for (const KnownKey& key : known) {
    const size_t distance = edit_distance(name, last_of(key.path));
    const bool neighbour = parent_of(key.path) == parent_of(path);
    size_t cost = kNone;
    if (neighbour && distance <= close) cost = distance;
    if (!neighbour && distance == 0) cost = close + edit_distance(path, key.path);
    if (cost < best.first) best = {cost, key.path};
  }
  return best.second;
}

std::string neighbours(const std::string& path, const std::vector<KnownKey>& known) {
  std::string text;
  for (const KnownKey& key : known) {
    if (parent_of(key.path) != parent_of(path)) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", last_of(key.path));
  }
  return text;
}

}  // namespace

void refuse_unknown_keys(const Document& document, const std::vector<KnownKey>& known) {
  std::vector<UnknownKey> unknown;
  collect(document.root, "", known, unknown);
  if (unknown.empty()) return;
  const auto first =
      std::min_element(unknown.begin(), unknown.end(), [](const auto& a, const auto& b) {
        return std::tuple(a.origin.line == 0, a.origin.line) <
               std::tuple(b.origin.line == 0, b.origin.line);
      });
  const std::string likely = suggestion(first->path, known);
  const std::string question = likely.empty() ? "" : fmt::format("; did you mean \"{}\"?", likely);
  throw ConfigError(fmt::format("{}: unknown key \"{}\"{} (allowed: {})", first->origin.text,
                                first->path, question, neighbours(first->path, known)));
}

}  // namespace deq::lab::config

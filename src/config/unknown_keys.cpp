#include "config/unknown_keys.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "deq/config/config_error.h"

namespace deq::config {
namespace {

struct UnknownKey {
  std::string path;
  Place place;
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
      unknown.push_back({.path = path, .place = entry.place});
    } else if (inner != nullptr && found->may_be_table) {
      collect(*inner, path, known, unknown);
    }
  }
}

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// A neighbour with a similar name, or the same name elsewhere; empty when nothing comes close.
std::string suggestion(const std::string& path, const std::vector<KnownKey>& known) {
  constexpr size_t kNone = 1'000'000;
  const std::string_view name = last_of(path);
  const size_t close_enough = std::max<size_t>(1, name.size() / 3);
  std::pair<size_t, std::string> best{kNone, ""};
  for (const KnownKey& key : known) {
    const size_t distance = edit_distance(name, last_of(key.path));
    const bool neighbour = parent_of(key.path) == parent_of(path);
    size_t cost = kNone;
    if (neighbour && distance <= close_enough) cost = distance;
    if (!neighbour && distance == 0) cost = close_enough + edit_distance(path, key.path);
    if (cost < best.first) best = {cost, key.path};
  }
  return best.second;
}

std::string neighbours(const std::string& path, const std::vector<KnownKey>& known) {
  std::string text;
  for (const KnownKey& key : known) {
    if (parent_of(key.path) != parent_of(path)) continue;
    text += c10::str(text.empty() ? "" : ", ", last_of(key.path));
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
        return std::tuple(a.place.line == 0, a.place.line) <
               std::tuple(b.place.line == 0, b.place.line);
      });
  const std::string likely = suggestion(first->path, known);
  const std::string question = likely.empty() ? "" : c10::str("; did you mean \"", likely, "\"?");
  throw ConfigError(c10::str(first->place.text, ": unknown key \"", first->path, "\"", question,
                             " (allowed: ", neighbours(first->path, known), ")"));
}

}  // namespace deq::config

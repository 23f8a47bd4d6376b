#include "deq/lab/io/json_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/require.h"
#include "deq/lab/io/atomic_file.h"
#include "lab/io/descriptor.h"
#include "lab/io/number_text.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace {

using nlohmann::json;
using Line = std::map<std::string, MetricValue>;

std::string quoted_json(const std::string& text) {
  // Bytes that are not UTF-8 become U+FFFD: a strange name must not end a training run.
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string list_text(const std::vector<double>& numbers) {
  std::string text = "[";
  for (const double number : numbers) {
    if (text.size() > 1) text += ',';
    text += std::isfinite(number) ? io::number_text(number) : "null";
  }
  return text + ']';
}

std::optional<std::string> value_text(const MetricValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* text = std::get_if<std::string>(&value)) return quoted_json(*text);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) return list_text(*numbers);
  const double number = std::get<double>(value);
  if (!std::isfinite(number)) return std::nullopt;
  return io::number_text(number);
}

std::optional<MetricValue> parse_list(const json& list) {
  std::vector<double> numbers;
  for (const auto& member : list) {
    if (!member.is_number() && !member.is_null()) return std::nullopt;
    numbers.push_back(member.is_null() ? std::nan("") : member.get<double>());
  }
  return numbers;
}

std::optional<MetricValue> parse_value(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  const bool fits = !value.is_number_unsigned() || std::in_range<int64_t>(value.get<uint64_t>());
  if (value.is_number_integer() && fits) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_array()) return parse_list(value);
  return std::nullopt;
}

std::optional<Line> parse_line(std::string_view text) {
  const json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  Line line;
  for (const auto& [key, member] : object.items()) {
    const auto value = parse_value(member);
    if (!value) return std::nullopt;
    line[key] = *value;
  }
  return line;
}

// After a crash the file may end in the middle of a line. The next line must not be glued to it.
void mend_end(int descriptor, const std::filesystem::path& path) {
  const std::string text = read_file(path);
  if (text.empty() || text.back() == '\n') return;
  const size_t last_line = text.rfind('\n') + 1;  // 0 when there is no line before
  const bool whole = parse_line(std::string_view(text).substr(last_line)).has_value();
  const int code = whole
                       ? io::write_all(descriptor, "\n", 1)
                       : (::ftruncate(descriptor, static_cast<off_t>(last_line)) == 0 ? 0 : errno);
  if (code != 0) io::throw_system_error("write", path, code);
}

bool is_at_most(std::string_view text, int64_t step) {
  const auto line = parse_line(text);
  if (!line) return false;
  const auto found = line->find("step");
  const auto* at = found == line->end() ? nullptr : std::get_if<int64_t>(&found->second);
  return at != nullptr && *at <= step;
}

}  // namespace

JsonLines::JsonLines(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) io::throw_system_error("write", path_, errno);
  try {
    mend_end(descriptor_, path_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

JsonLines::~JsonLines() {
  ::close(descriptor_);
}

void JsonLines::append(const std::vector<std::pair<std::string, MetricValue>>& values) {
  std::string line = "{";
  for (const auto& [key, value] : values) {
    const auto text = value_text(value);
    if (!text) continue;
    if (line.size() > 1) line += ',';
    line += quoted_json(key) + ':' + *text;
  }
  line += "}\n";
  io::append_whole(descriptor_, path_, line);
}

std::vector<Line> read_json_lines(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<Line> lines;
  for (size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    const bool complete = end != std::string::npos;
    auto line = parse_line(std::string_view(text).substr(begin, complete ? end - begin : end));
    require(line.has_value() || !complete,
            "{}:{}: not a JSON object of numbers, strings and lists of numbers", path.string(),
            number);
    if (line) lines.push_back(std::move(*line));
    if (!complete) break;
    begin = end + 1;
  }
  return lines;
}

void drop_lines_after(const std::filesystem::path& path, int64_t step) {
  std::error_code code;
  if (!std::filesystem::exists(path, code) && !code) return;
  const std::string text = read_file(path);
  std::string kept;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const auto line = std::string_view(text).substr(begin, end - begin);
    if (is_at_most(line, step)) kept += line;
    begin = end;
  }
  if (kept != text) write_file_atomically(path, kept);
}

}  // namespace deq::lab

#include "io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "deq/core/error.h"

namespace deq::io {
namespace {

using nlohmann::json;

constexpr std::pair<std::string_view, torch::ScalarType> kTypes[] = {
    {"F64", torch::kFloat64},   {"F32", torch::kFloat32}, {"F16", torch::kFloat16},
    {"BF16", torch::kBFloat16}, {"I64", torch::kInt64},   {"I32", torch::kInt32},
    {"I16", torch::kInt16},     {"I8", torch::kInt8},     {"U8", torch::kUInt8},
    {"BOOL", torch::kBool}};

constexpr const char* kMetadataKey = "__metadata__";
constexpr size_t kMaxDimensions = 64;  // torch's own kernels take no more

// The parser keeps the last of equal keys without a word; a header with two is not to be trusted.
class DuplicateKeys {
 public:
  bool operator()(int /*depth*/, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) seen_.emplace_back();
    if (event == json::parse_event_t::object_end) seen_.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      require(seen_.back().insert(key).second, "the header names \"", key, "\" twice");
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> seen_;
};

json parse_json(std::string_view text) {
  try {
    return json::parse(text.begin(), text.end(), DuplicateKeys());
  } catch (const json::exception&) {
    throw Error("its header is not valid JSON");
  }
}

int64_t parse_size(const json& value, const std::string& name) {
  require(value.is_number_unsigned(), "tensor \"", name,
          "\" has a size or offset that is not a whole number ≥ 0");
  const auto size = value.get<uint64_t>();
  require(std::in_range<int64_t>(size), "tensor \"", name, "\" has the absurd size ", size);
  return static_cast<int64_t>(size);
}

const json& member(const json& object, const char* key, json::value_t type,
                   const std::string& name) {
  const auto found = object.find(key);
  require(found != object.end() && found->type() == type, "tensor \"", name, "\" has no valid ",
          key);
  return *found;
}

torch::ScalarType parse_type(const json& info, const std::string& name) {
  const auto& text =
      member(info, "dtype", json::value_t::string, name).get_ref<const std::string&>();
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](auto& type) { return type.first == text; });
  require(found != std::end(kTypes), "tensor \"", name, "\" has the unknown type \"", text, "\"");
  return found->second;
}

TensorEntry parse_entry(const std::string& name, const json& info) {
  require(info.is_object(), "tensor \"", name, "\" is not described by an object");
  TensorEntry entry{.name = name, .type = parse_type(info, name), .shape = {}};
  const json& shape = member(info, "shape", json::value_t::array, name);
  require(shape.size() <= kMaxDimensions, "tensor \"", name, "\" has ", shape.size(),
          " dimensions");
  for (const json& size : shape) entry.shape.push_back(parse_size(size, name));

  const json& offsets = member(info, "data_offsets", json::value_t::array, name);
  require(offsets.size() == 2, "tensor \"", name, "\" has ", offsets.size(),
          " data_offsets, not 2");
  entry.begin = static_cast<uint64_t>(parse_size(offsets[0], name));
  entry.end = static_cast<uint64_t>(parse_size(offsets[1], name));
  return entry;
}

void check_size(const TensorEntry& entry) {
  // Zeros count as ones, because torch's strides do the same and must not overflow either.
  int64_t bytes = static_cast<int64_t>(torch::elementSize(entry.type));
  bool empty = false;
  for (const int64_t size : entry.shape) {
    empty = empty || size == 0;
    require(!__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes), "tensor \"",
            entry.name, "\" has an absurd shape");
  }
  const uint64_t needed = empty ? 0 : static_cast<uint64_t>(bytes);
  require(entry.end >= entry.begin && entry.end - entry.begin == needed, "tensor \"", entry.name,
          "\" needs ", needed, " bytes, but its data_offsets are [", entry.begin, ", ", entry.end,
          "]");
}

void check_tiling(const std::vector<TensorEntry>& entries, uint64_t data_bytes) {
  uint64_t position = 0;
  for (const TensorEntry& entry : entries) {
    require(entry.end <= data_bytes, "tensor \"", entry.name, "\" ends at byte ", entry.end,
            " of the data, which has ", data_bytes);
    require(entry.begin >= position, "tensor \"", entry.name, "\" overlaps another");
    require(entry.begin == position, "there is a hole before tensor \"", entry.name, "\"");
    position = entry.end;
  }
  require(position == data_bytes, data_bytes - position, " bytes at its end belong to no tensor");
}

std::map<std::string, std::string> parse_metadata(const json& object) {
  require(object.is_object(), kMetadataKey, " is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : object.items()) {
    require(value.is_string(), kMetadataKey, " \"", key, "\" is not a string");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

}  // namespace

std::optional<std::string_view> type_name(torch::ScalarType type) {
  for (const auto& [text, known] : kTypes) {
    if (known == type) return text;
  }
  return std::nullopt;
}

Header parse_header(std::string_view text, uint64_t data_bytes) {
  const json root = parse_json(text);
  require(root.is_object(), "its header is not a JSON object");
  Header header;
  for (const auto& [name, info] : root.items()) {
    if (name == kMetadataKey) {
      header.metadata = parse_metadata(info);
    } else {
      header.entries.push_back(parse_entry(name, info));
      check_size(header.entries.back());
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_tiling(header.entries, data_bytes);
  return header;
}

std::string format_header(const Header& header) {
  json root = json::object();
  if (!header.metadata.empty()) root[kMetadataKey] = header.metadata;
  for (const TensorEntry& entry : header.entries) {
    require(entry.name != kMetadataKey, "no tensor may be called ", kMetadataKey);
    root[entry.name] = {{"dtype", type_name(entry.type).value()},
                        {"shape", entry.shape},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text;
  try {
    text = root.dump();
  } catch (const json::exception&) {
    throw Error("a name or a metadata text is not valid UTF-8");
  }
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  return text;
}

}  // namespace deq::io

#include "lab/io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "core/require.h"

namespace deq::lab::io {
namespace {

using nlohmann::json;

constexpr std::pair<std::string_view, torch::ScalarType> kTypes[] = {
    {"F64", torch::kFloat64},   {"F32", torch::kFloat32}, {"F16", torch::kFloat16},
    {"BF16", torch::kBFloat16}, {"I64", torch::kInt64},   {"I32", torch::kInt32},
    {"I16", torch::kInt16},     {"I8", torch::kInt8},     {"U8", torch::kUInt8},
    {"BOOL", torch::kBool}};

constexpr const char* kMetadataKey = "__metadata__";
constexpr size_t kMaxDimensions = 64;  // torch's own kernels take no more

int64_t parse_size(const json& value, const std::string& name) {
  require(value.is_number_unsigned(),
          "tensor \"{}\" has a size or offset that is not a whole number ≥ 0", name);
  const auto size = value.get<uint64_t>();
  require(std::in_range<int64_t>(size), "tensor \"{}\" has the absurd size {}", name, size);
  return static_cast<int64_t>(size);
}

const json& member(const json& object, const char* key, json::value_t type,
                   const std::string& name) {
  const auto found = object.find(key);
  require(found != object.end() && found->type() == type, "tensor \"{}\" has no valid {}", name,
          key);
  return *found;
}

torch::ScalarType parse_type(const json& info, const std::string& name) {
  const auto& text =
      member(info, "dtype", json::value_t::string, name).get_ref<const std::string&>();
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](auto& type) { return type.first == text; });
  require(found != std::end(kTypes), "tensor \"{}\" has the unknown type \"{}\"", name, text);
  return found->second;
}

TensorEntry parse_entry(const std::string& name, const json& info) {
  require(info.is_object(), "tensor \"{}\" is not described by an object", name);
  TensorEntry entry{.name = name, .type = parse_type(info, name), .shape = {}};
  const json& shape = member(info, "shape", json::value_t::array, name);
  for (const json& size : shape) entry.shape.push_back(parse_size(size, name));

  const json& offsets = member(info, "data_offsets", json::value_t::array, name);
  require(offsets.size() == 2, "tensor \"{}\" has {} data_offsets, not 2", name, offsets.size());
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
    require(!__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes),
            "tensor \"{}\" has an absurd shape", entry.name);
  }
  const uint64_t needed = empty ? 0 : static_cast<uint64_t>(bytes);
  require(entry.end >= entry.begin && entry.end - entry.begin == needed,
          "tensor \"{}\" needs {} bytes, but its data_offsets are [{}, {}]", entry.name, needed,
          entry.begin, entry.end);
}

void check_tiling(const std::vector<TensorEntry>& entries, uint64_t data_bytes) {
  uint64_t position = 0;
  for (const TensorEntry& entry : entries) {
    require(entry.end <= data_bytes, "tensor \"{}\" ends at byte {} of the data, which has {}",
            entry.name, entry.end, data_bytes);
    require(entry.begin >= position, "tensor \"{}\" overlaps another", entry.name);
    require(entry.begin == position, "there is a hole before tensor \"{}\"", entry.name);
    position = entry.end;
  }
  require(position == data_bytes, "{} bytes at its end belong to no tensor", data_bytes - position);
}

constexpr int kMaxDepth = 3;  // the header, a tensor's description, its shape

// Makes entries of a header while it is parsed, so that only one tensor's JSON values are held at a
// time: those of a whole header take some ten times its bytes. The parser by itself would also keep
// the last of equal keys without a word, where a header with two is not to be trusted, and follow
// brackets to any depth.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(Header& header) : header_(header) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return value(number); }
  bool number_unsigned(number_unsigned_t number) override { return value(number); }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool string(string_t& text) override { return value(std::move(text)); }
  bool binary(binary_t&) override { return value(nullptr); }
  bool key(string_t& key) override {
    require(names_[depth_ - 1].insert(key).second, "the header names \"{}\" twice", key);
    if (depth_ == 1) entry_ = key, info_ = nullptr, values_ = 0;
    if (depth_ == 2) field_ = key;
    return true;
  }
  bool start_object(size_t) override {
    open(json::value_t::object);
    names_[depth_ - 1].clear();
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override {
    open(json::value_t::array);
    return true;
  }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  void open(json::value_t kind) {
    require(depth_ > 0 || kind == json::value_t::object, "its header is not a JSON object");
    require(depth_ < kMaxDepth, "its header is nested too deeply");
    if (depth_ == 1) info_ = json(kind);
    if (depth_ == 2 && info_.is_object()) info_[field_] = json(kind);
    ++depth_;
  }
  bool close() {
    if (--depth_ == 1) finish();
    return true;
  }
  bool value(json held) {
    require(depth_ > 0, "its header is not a JSON object");
    // Beside its shape a tensor has a type and two offsets.
    require(entry_ == kMetadataKey || ++values_ <= kMaxDimensions + 3,
            "tensor \"{}\" has more than {} dimensions", entry_, kMaxDimensions);
    if (depth_ == 1) {
      info_ = std::move(held);
      finish();
    } else if (entry_ == kMetadataKey && depth_ == 2 && info_.is_object()) {
      require(held.is_string(), "{} \"{}\" is not a string", kMetadataKey, field_);
      header_.metadata[field_] = std::move(held.get_ref<std::string&>());
    } else if (depth_ == 2 && info_.is_object()) {
      info_[field_] = std::move(held);
    } else if (depth_ == 3 && info_.is_object() && info_[field_].is_array()) {
      info_[field_].push_back(std::move(held));
    }
    return true;
  }
  /// What the header names is complete.
  void finish() {
    if (entry_ == kMetadataKey) {
      require(info_.is_object(), "{} is not an object", kMetadataKey);
      for (const auto& [key, other] : info_.items()) {  // its texts are in the header already
        throw Error(fmt::format("{} \"{}\" is not a string", kMetadataKey, key));
      }
      return;
    }
    header_.entries.push_back(parse_entry(entry_, info_));
    check_size(header_.entries.back());
  }

  Header& header_;
  int depth_ = 0;
  std::set<std::string> names_[kMaxDepth];  // of the objects that are open
  std::string entry_, field_;               // what is described, and by what
  json info_;                               // its description so far
  size_t values_ = 0;                       // how many that has
};

}  // namespace

std::optional<std::string_view> type_name(torch::ScalarType type) {
  for (const auto& [text, known] : kTypes) {
    if (known == type) return text;
  }
  return std::nullopt;
}

Header parse_header(std::string_view text, uint64_t data_bytes) {
  Header header;
  HeaderReader reader(header);
  require(json::sax_parse(text.begin(), text.end(), &reader), "its header is not valid JSON");
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_tiling(header.entries, data_bytes);
  return header;
}

std::string format_header(const Header& header) {
  // In the order of names, one description at a time, for the same reason as HeaderReader's.
  std::map<std::string_view, const TensorEntry*> by_name;
  for (const TensorEntry& entry : header.entries) {
    require(entry.name != kMetadataKey, "no tensor may be called {}", kMetadataKey);
    by_name[entry.name] = &entry;
  }
  if (!header.metadata.empty()) by_name[kMetadataKey] = nullptr;
  std::string text = "{";
  try {
    for (const auto& [name, entry] : by_name) {
      if (text.size() > 1) text += ',';
      text += json(name).dump() + ':';
      text += entry == nullptr ? json(header.metadata).dump()
                               : json{{"dtype", type_name(entry->type).value()},
                                      {"shape", entry->shape},
                                      {"data_offsets", {entry->begin, entry->end}}}
                                     .dump();
    }
  } catch (const json::exception&) {
    throw Error("a name or a metadata text is not valid UTF-8");
  }
  text += '}';
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  return text;
}

void require_storable(const std::string& name, const torch::Tensor& tensor) {
  require(tensor.defined() && tensor.layout() == torch::kStrided,
          "tensor \"{}\" is undefined or sparse", name);
  require(type_name(tensor.scalar_type()).has_value(),
          "tensor \"{}\" has the type {}, which is not supported", name, tensor.scalar_type());
}

torch::Tensor as_stored(const torch::Tensor& tensor) {
  return tensor.detach().cpu().contiguous().resolve_neg();
}

std::string_view bytes_of(const torch::Tensor& stored) {
  return {static_cast<const char*>(stored.const_data_ptr()), stored.nbytes()};
}

}  // namespace deq::lab::io

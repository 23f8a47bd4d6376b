#include "lab/data/images/packed_index.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "deq/core/error.h"
#include "deq/lab/io/safetensors.h"
#include "lab/io/checksum.h"

// A safetensors file. Metadata: format, version, classes (a JSON list), checksum. Tensors, one row
// per image: label, shard, offset, length, crc32c, and name_end into the UTF-8 bytes `names`; and
// shard_size, one row per shard.

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

constexpr const char* kIndexFormat = "deq-packed-images";
constexpr const char* kIndexVersion = "1";

torch::Tensor index_column(const std::vector<int64_t>& numbers) {
  return torch::tensor(numbers, torch::kInt64);
}

template <class Field>
torch::Tensor index_column(const std::vector<PackedImage>& images, const Field& field) {
  std::vector<int64_t> numbers;
  numbers.reserve(images.size());
  for (const auto& image : images) numbers.push_back(static_cast<int64_t>(field(image)));
  return index_column(numbers);
}

torch::Tensor bytes_of(const std::string& text) {
  auto bytes = torch::empty({static_cast<int64_t>(text.size())}, torch::kUInt8);
  if (!text.empty()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

/// A file that was found to be whole; its parts are still to be checked against each other.
class Content {
 public:
  explicit Content(const fs::path& path) : path_(path), file_(read_safetensors(path)) {
    check(text("format") == kIndexFormat, "its metadata does not name the format");
    check(text("version") == kIndexVersion, "its version is not 1");
    check(text(kChecksumKey) == content_checksum(file_), "its checksum does not match");
  }

  std::string text(const std::string& key) const {
    const auto found = file_.metadata.find(key);
    return found == file_.metadata.end() ? std::string() : found->second;
  }
  torch::Tensor tensor(const std::string& name, torch::ScalarType type) const {
    const auto found = file_.tensors.find(name);
    check(found != file_.tensors.end() && found->second.dim() == 1 &&
              found->second.scalar_type() == type,
          "it has no column \"{}\"", name);
    return found->second.contiguous();
  }
  std::vector<int64_t> numbers(const std::string& name) const {
    const auto values = tensor(name, torch::kInt64);
    const auto* first = values.const_data_ptr<int64_t>();
    return {first, first + values.numel()};
  }
  template <class... Args>
  void check(bool ok, fmt::format_string<Args...> format, Args&&... args) const {
    if (ok) return;
    throw Error(fmt::format("{} is no usable index of packed images: {}", path_.string(),
                            fmt::format(format, std::forward<Args>(args)...)));
  }

 private:
  fs::path path_;
  TensorFile file_;
};

std::vector<std::string> read_index_classes(const Content& content) {
  const auto list = nlohmann::json::parse(content.text("classes"), nullptr, false);
  content.check(list.is_array() && !list.empty(), "it lists no classes");
  std::vector<std::string> classes;
  for (const auto& name : list) {
    content.check(name.is_string(), "a class has no name");
    classes.push_back(name.get<std::string>());
  }
  return classes;
}

void check_offsets(const Content& content, const PackedIndex& index) {
  for (const auto& image : index.images) {
    content.check(image.label >= 0 && image.label < static_cast<int64_t>(index.classes.size()),
                  "{} has label {}, must be ≥ 0 and < {}", image.name, image.label,
                  index.classes.size());
    content.check(image.shard >= 0 && image.shard < static_cast<int64_t>(index.shard_sizes.size()),
                  "{} is in file {} of {}", image.name, image.shard, index.shard_sizes.size());
    const auto size = index.shard_sizes[static_cast<size_t>(image.shard)];
    content.check(image.offset >= 0 && image.length >= 0 && image.offset <= size &&
                      image.length <= size - image.offset,
                  "{} lies outside of its file", image.name);
  }
}

}  // namespace

fs::path packed_index_path(const fs::path& folder) {
  return folder / "index.safetensors";
}

fs::path packed_shard_path(const fs::path& folder, int64_t shard) {
  return folder / fmt::format("images-{:05}.bin", shard);
}

void write_packed_index(const fs::path& folder, const PackedIndex& index) {
  TensorFile file;
  std::string names;
  std::vector<int64_t> name_ends;
  for (const auto& image : index.images) {
    names += image.name;
    name_ends.push_back(static_cast<int64_t>(names.size()));
  }
  const auto& images = index.images;
  file.tensors = {
      {"label", index_column(images, [](const auto& image) { return image.label; })},
      {"shard", index_column(images, [](const auto& image) { return image.shard; })},
      {"offset", index_column(images, [](const auto& image) { return image.offset; })},
      {"length", index_column(images, [](const auto& image) { return image.length; })},
      {"crc32c", index_column(images, [](const auto& image) { return image.checksum; })},
      {"name_end", index_column(name_ends)},
      {"names", bytes_of(names)},
      {"shard_size", index_column(index.shard_sizes)}};
  using nlohmann::json;
  // Names of folders may be no UTF-8; safetensors' header must be.
  const auto classes = json(index.classes).dump(-1, ' ', false, json::error_handler_t::replace);
  file.metadata = {{"format", kIndexFormat}, {"version", kIndexVersion}, {"classes", classes}};
  file.metadata[kChecksumKey] = content_checksum(file);
  write_safetensors(packed_index_path(folder), file);
}

PackedIndex read_packed_index(const fs::path& folder) {
  const Content content(packed_index_path(folder));
  PackedIndex index{.classes = read_index_classes(content),
                    .shard_sizes = content.numbers("shard_size"),
                    .images = {}};
  const auto labels = content.numbers("label"), shards = content.numbers("shard"),
             offsets = content.numbers("offset"), lengths = content.numbers("length"),
             checksums = content.numbers("crc32c"), name_ends = content.numbers("name_end");
  for (const auto* numbers : {&shards, &offsets, &lengths, &checksums, &name_ends}) {
    content.check(numbers->size() == labels.size(), "its columns differ in length");
  }
  content.check(!labels.empty(), "it lists no images");
  const auto name_bytes = content.tensor("names", torch::kUInt8);
  const std::string_view names(static_cast<const char*>(name_bytes.const_data_ptr()),
                               static_cast<size_t>(name_bytes.numel()));
  int64_t name_begin = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    content.check(name_ends[i] >= name_begin && name_ends[i] <= name_bytes.numel(),
                  "the name of image {} lies outside of its names", i);
    const auto length = static_cast<size_t>(name_ends[i] - name_begin);
    index.images.push_back({std::string(names.substr(static_cast<size_t>(name_begin), length)),
                            labels[i], shards[i], offsets[i], lengths[i],
                            static_cast<uint32_t>(checksums[i])});
    name_begin = name_ends[i];
  }
  check_offsets(content, index);
  return index;
}

}  // namespace deq::lab

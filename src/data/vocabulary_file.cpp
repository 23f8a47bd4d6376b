#include "data/vocabulary_file.h"

#include <cstring>

#include "deq/core/error.h"
#include "deq/io/checksum.h"

namespace deq {
namespace {

constexpr const char* kFormat = "deq-vocabulary";
constexpr const char* kVersion = "1";

torch::Tensor column(const TensorFile& file, const char* name, torch::ScalarType type) {
  const auto found = file.tensors.find(name);
  require(found != file.tensors.end() && found->second.dim() == 1 &&
              found->second.scalar_type() == type,
          "it has no column \"", name, "\"");
  return found->second;
}

std::string text_of(const TensorFile& file, const char* key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::string() : found->second;
}

}  // namespace

TensorFile pack_vocabulary(const Vocabulary& vocabulary) {
  std::string text;
  auto counts = torch::empty({vocabulary.size()}, torch::kInt64), ends = torch::empty_like(counts);
  for (int64_t i = 0; i < vocabulary.size(); ++i) {
    text += vocabulary.word(i);
    counts.data_ptr<int64_t>()[i] = vocabulary.count(i);
    ends.data_ptr<int64_t>()[i] = static_cast<int64_t>(text.size());
  }
  auto bytes = torch::empty({static_cast<int64_t>(text.size())}, torch::kUInt8);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return {.tensors = {{"counts", counts}, {"ends", ends}, {"text", bytes}}, .metadata = {}};
}

Vocabulary unpack_vocabulary(const TensorFile& file) {
  const auto counts = column(file, "counts", torch::kInt64),
             ends = column(file, "ends", torch::kInt64),
             bytes = column(file, "text", torch::kUInt8);
  require(counts.numel() == ends.numel(), "its columns differ in length");
  const std::string_view text(static_cast<const char*>(bytes.const_data_ptr()),
                              static_cast<size_t>(bytes.numel()));
  std::vector<WordCount> words;
  words.reserve(static_cast<size_t>(counts.numel()));
  int64_t begin = 0;
  for (int64_t i = 0; i < counts.numel(); ++i) {
    const auto end = ends.const_data_ptr<int64_t>()[i];
    require(end >= begin && end <= bytes.numel(), "word ", i, " lies outside of its text");
    words.push_back({text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                     counts.const_data_ptr<int64_t>()[i]});
    begin = end;
  }
  return Vocabulary(words);
}

std::string checksum(const Vocabulary& vocabulary) {
  return content_checksum(pack_vocabulary(vocabulary));
}

void write_vocabulary(const std::filesystem::path& path, const Vocabulary& vocabulary) {
  auto file = pack_vocabulary(vocabulary);
  file.metadata = {{"format", kFormat}, {"version", kVersion}};
  file.metadata[kChecksumKey] = content_checksum(file);
  write_safetensors(path, file);
}

Vocabulary read_vocabulary(const std::filesystem::path& path) {
  const auto file = read_safetensors(path);
  try {
    require(text_of(file, "format") == kFormat, "its metadata does not name the format");
    require(text_of(file, "version") == kVersion, "its version is not 1");
    require(text_of(file, kChecksumKey) == content_checksum(file), "its checksum does not match");
    return unpack_vocabulary(file);
  } catch (const Error& error) {
    throw Error(c10::str(path.string(), " is no usable vocabulary: ", error.what()));
  }
}

}  // namespace deq

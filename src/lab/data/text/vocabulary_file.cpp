#include "lab/data/text/vocabulary_file.h"

#include <cstring>

#include "core/require.h"
#include "lab/io/checksum.h"

namespace deq::lab {
namespace {

constexpr const char* kVocabularyFormat = "deq-vocabulary";
constexpr const char* kVocabularyVersion = "1";

torch::Tensor vocabulary_column(const TensorFile& file, const char* name, torch::ScalarType type) {
  const auto found = file.tensors.find(name);
  require(found != file.tensors.end() && found->second.dim() == 1 &&
              found->second.scalar_type() == type,
          "it has no column \"{}\"", name);
  return found->second;
}

std::string vocabulary_text(const TensorFile& file, const char* key) {
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
  const auto counts = vocabulary_column(file, "counts", torch::kInt64),
             ends = vocabulary_column(file, "ends", torch::kInt64),
             bytes = vocabulary_column(file, "text", torch::kUInt8);
  require(counts.numel() == ends.numel(), "its columns differ in length");
  const std::string_view text(static_cast<const char*>(bytes.const_data_ptr()),
                              static_cast<size_t>(bytes.numel()));
  std::vector<WordCount> words;
  words.reserve(static_cast<size_t>(counts.numel()));
  int64_t begin = 0;
  for (int64_t i = 0; i < counts.numel(); ++i) {
    const auto end = ends.const_data_ptr<int64_t>()[i];
    require(end >= begin && end <= bytes.numel(), "word {} lies outside of its text", i);
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
  file.metadata = {{"format", kVocabularyFormat}, {"version", kVocabularyVersion}};
  file.metadata[kChecksumKey] = content_checksum(file);
  write_safetensors(path, file);
}

Vocabulary read_vocabulary(const std::filesystem::path& path) {
  const auto file = read_safetensors(path);
  try {
    require(vocabulary_text(file, "format") == kVocabularyFormat,
            "its metadata does not name the format");
    require(vocabulary_text(file, "version") == kVocabularyVersion, "its version is not 1");
    require(vocabulary_text(file, kChecksumKey) == content_checksum(file),
            "its checksum does not match");
    return unpack_vocabulary(file);
  } catch (const Error& error) {
    throw Error(fmt::format("{} is no usable vocabulary: {}", path.string(), error.what()));
  }
}

}  // namespace deq::lab

#include "deq/io/checkpoint_file.h"

#include "deq/core/error.h"
#include "deq/io/checksum.h"
#include "io/storable.h"

namespace deq {
namespace {

constexpr const char* kFormatKey = "format";
constexpr const char* kVersionKey = "format_version";
constexpr const char* kFormat = "deq-checkpoint";
constexpr const char* kVersion = "1";

std::string text_of(const std::map<std::string, std::string>& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

}  // namespace

void write_checkpoint_file(const std::filesystem::path& path, TensorFile file) {
  file.metadata[kFormatKey] = kFormat;
  file.metadata[kVersionKey] = kVersion;
  try {
    // Fetched from the device once: what is summed up is what is written.
    for (auto& [name, tensor] : file.tensors) {
      io::require_storable(name, tensor);
      tensor = io::as_stored(tensor);
    }
    file.metadata[kChecksumKey] = content_checksum(file);
  } catch (const Error& error) {
    throw Error(c10::str("cannot write ", path.string(), ": ", error.what()));
  }
  write_safetensors(path, file);
}

TensorFile read_checkpoint_file(const std::filesystem::path& path) {
  TensorFile file = read_safetensors(path);
  require(text_of(file.metadata, kFormatKey) == kFormat, path.string(),
          " is no checkpoint of deq: its metadata does not name the format \"", kFormat, "\"");
  const std::string version = text_of(file.metadata, kVersionKey);
  require(version == kVersion, path.string(), " is a checkpoint of format version \"", version,
          "\", and this version of deq reads version \"", kVersion, "\"");
  const std::string expected = text_of(file.metadata, kChecksumKey);
  const std::string actual = content_checksum(file);
  require(actual == expected, path.string(), " is damaged: its checksum is \"", expected,
          "\", its content's \"", actual, "\"");
  for (const char* key : {kFormatKey, kVersionKey, kChecksumKey}) file.metadata.erase(key);
  return file;
}

}  // namespace deq

#include "deq/lab/io/checkpoint_file.h"

#include "core/require.h"
#include "lab/io/checksum.h"
#include "lab/io/safetensors_header.h"

namespace deq::lab {
namespace {

constexpr const char* kFormatKey = "format";
constexpr const char* kVersionKey = "format_version";
constexpr const char* kCheckpointFormat = "deq-checkpoint";
constexpr const char* kCheckpointVersion = "1";

std::string metadata_text(const std::map<std::string, std::string>& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

}  // namespace

void write_checkpoint_file(const std::filesystem::path& path, TensorFile file) {
  file.metadata[kFormatKey] = kCheckpointFormat;
  file.metadata[kVersionKey] = kCheckpointVersion;
  try {
    // Fetched from the device once: what is summed up is what is written.
    for (auto& [name, tensor] : file.tensors) {
      io::require_storable(name, tensor);
      tensor = io::as_stored(tensor);
    }
    file.metadata[kChecksumKey] = content_checksum(file);
  } catch (const Error& error) {
    throw Error(fmt::format("cannot write {}: {}", path.string(), error.what()));
  }
  write_safetensors(path, file);
}

TensorFile read_checkpoint_file(const std::filesystem::path& path) {
  TensorFile file = read_safetensors(path);
  require(metadata_text(file.metadata, kFormatKey) == kCheckpointFormat,
          "{} is no checkpoint of deq: its metadata does not name the format \"{}\"", path.string(),
          kCheckpointFormat);
  const std::string version = metadata_text(file.metadata, kVersionKey);
  require(
      version == kCheckpointVersion,
      "{} is a checkpoint of format version \"{}\", and this version of deq reads version \"{}\"",
      path.string(), version, kCheckpointVersion);
  const std::string expected = metadata_text(file.metadata, kChecksumKey);
  const std::string actual = content_checksum(file);
  require(actual == expected, "{} is damaged: its checksum is \"{}\", its content's \"{}\"",
          path.string(), expected, actual);
  for (const char* key : {kFormatKey, kVersionKey, kChecksumKey}) file.metadata.erase(key);
  return file;
}

}  // namespace deq::lab

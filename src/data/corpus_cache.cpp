#include "data/corpus_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>

#include "deq/core/error.h"
#include "deq/io/checksum.h"
#include "io/mapped_safetensors.h"

namespace deq {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFormat = "deq-corpus";
constexpr const char* kVersion = "1";  // another when texts are parted into words otherwise

std::string text_of(const TensorFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::string() : found->second;
}

/// A file as it was written by some process for some text, or an Error.
TensorFile open_whole(const fs::path& path) {
  auto file = io::map_safetensors(path);
  require(text_of(file, "format") == kFormat, path.string(), " does not name the format");
  require(text_of(file, "version") == kVersion, path.string(), " has another version");
  require(text_of(file, kChecksumKey) == content_checksum(file), path.string(),
          " does not match its checksum");
  return file;
}

bool lock_file(int descriptor) {
  int result = 0;
  do {
    result = ::flock(descriptor, LOCK_EX);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

/// What a process that was killed had not finished writing. Under the lock nobody else is at it.
void remove_leftovers(const fs::path& folder) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with('.') && name.find(".safetensors.tmp.") != std::string::npos) {
      std::error_code ignored;
      fs::remove(entry.path(), ignored);
    }
  }
}

}  // namespace

CorpusCache::CorpusCache(std::optional<fs::path> folder, Warn warn)
    : folder_(std::move(folder)), warn_(std::move(warn)) {
  if (!folder_) return;
  // A folder that cannot be written to may still hold what is looked for.
  std::error_code code;
  fs::create_directories(*folder_, code);
  lock_ = ::open((*folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  // A file system without locks costs work done twice, no more: files appear whole.
  if (lock_ >= 0 && lock_file(lock_)) remove_leftovers(*folder_);
}

CorpusCache::~CorpusCache() {
  if (lock_ >= 0) ::close(lock_);
}

fs::path CorpusCache::path(const std::string& name) const {
  return *folder_ / (name + ".safetensors");
}

void CorpusCache::warn(const std::string& sentence) const {
  if (warn_) warn_(sentence);
}

std::optional<TensorFile> CorpusCache::find(const std::string& name, CorpusText& text,
                                            const std::string& basis) {
  std::error_code code;
  if (!folder_ || !fs::exists(path(name), code)) return std::nullopt;
  TensorFile file;
  try {
    file = open_whole(path(name));
  } catch (const Error& error) {
    warn(c10::str("the cache is made anew, as it is damaged: ", error.what()));
    return std::nullopt;
  }
  const bool touched = text_of(file, "modified") != c10::str(text.modified());
  if (text_of(file, "bytes") != c10::str(text.bytes()) ||
      (touched && text_of(file, "crc32c") != c10::str(text.checksum()))) {
    warn(c10::str("the cache ", path(name).string(), " is made anew, as ", text.path().string(),
                  " has changed"));
    return std::nullopt;
  }
  if (text_of(file, "basis") != basis) {
    warn(c10::str("the cache ", path(name).string(), " is made anew, as it is for \"",
                  text_of(file, "basis"), "\", not \"", basis, "\""));
    return std::nullopt;
  }
  if (touched) {
    try {
      write(name, text, file);
    } catch (const Error&) {
      // Then the text's checksum is looked at the next time as well.
      return file;
    }
  }
  return file;
}

void CorpusCache::write(const std::string& name, CorpusText& text, TensorFile& file) const {
  file.metadata["format"] = kFormat;
  file.metadata["version"] = kVersion;
  file.metadata["bytes"] = c10::str(text.bytes());
  file.metadata["modified"] = c10::str(text.modified());
  file.metadata["crc32c"] = c10::str(text.checksum());
  file.metadata[kChecksumKey] = content_checksum(file);
  write_safetensors(path(name), file);
}

TensorFile CorpusCache::keep(const std::string& name, CorpusText& text, const std::string& basis,
                             TensorFile file) {
  if (!folder_) return file;
  try {
    file.metadata["basis"] = basis;
    write(name, text, file);
    return io::map_safetensors(path(name));
  } catch (const Error& error) {
    warn(c10::str("the words are held in memory, without a cache: ", error.what()));
    folder_.reset();
    return file;
  }
}

}  // namespace deq

#include "lab/data/text/corpus_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>

#include "core/require.h"
#include "deq/lab/io/atomic_file.h"
#include "lab/io/checksum.h"
#include "lab/io/mapped_safetensors.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

constexpr const char* kCacheFormat = "deq-corpus";
constexpr const char* kCacheVersion = "1";  // changes when texts are split into words differently

std::string cached_text(const TensorFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? std::string() : found->second;
}

/// A file as it was written by some process for some text, or an Error.
TensorFile open_whole(const fs::path& path) {
  auto file = io::map_safetensors(path);
  require(cached_text(file, "format") == kCacheFormat, "{} does not name the format",
          path.string());
  require(cached_text(file, "version") == kCacheVersion, "{} has another version", path.string());
  require(cached_text(file, kChecksumKey) == content_checksum(file),
          "{} does not match its checksum", path.string());
  return file;
}

bool lock_file(int descriptor) {
  int result = 0;
  do {
    result = ::flock(descriptor, LOCK_EX);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace

CorpusCache::CorpusCache(std::optional<fs::path> folder, Warn warn)
    : folder_(std::move(folder)), warn_(std::move(warn)) {
  if (!folder_) return;
  // A folder that cannot be written to may still hold what is looked for.
  std::error_code code;
  fs::create_directories(*folder_, code);
  lock_ = ::open((*folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  // Without the lock, work may be done twice, but files still appear whole. Under it nobody else is
  // writing.
  if (lock_ >= 0 && lock_file(lock_)) remove_unfinished_files(*folder_);
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

void CorpusCache::warn_of_damage(const Error& error) const {
  warn(fmt::format("the cache is made anew, as it is damaged: {}", error.what()));
}

std::optional<TensorFile> CorpusCache::find(const std::string& name, CorpusText& text,
                                            const std::string& basis, const Check& check) {
  std::error_code code;
  if (!folder_ || !fs::exists(path(name), code)) return std::nullopt;
  TensorFile file;
  try {
    file = open_whole(path(name));
  } catch (const Error& error) {
    warn_of_damage(error);
    return std::nullopt;
  }
  const bool touched = cached_text(file, "modified") != fmt::format("{}", text.modified());
  if (cached_text(file, "bytes") != fmt::format("{}", text.bytes()) ||
      (touched && cached_text(file, "crc32c") != fmt::format("{}", text.checksum()))) {
    warn(fmt::format("the cache {} is made anew, as {} has changed", path(name).string(),
                     text.path().string()));
    return std::nullopt;
  }
  if (cached_text(file, "basis") != basis) {
    warn(fmt::format("the cache {} is made anew, as it is for \"{}\", not \"{}\"",
                     path(name).string(), cached_text(file, "basis"), basis));
    return std::nullopt;
  }
  try {
    check(file);
  } catch (const Error& error) {
    warn_of_damage(Error(fmt::format("{}: {}", path(name).string(), error.what())));
    return std::nullopt;
  }
  if (touched) {
    try {
      write(name, text, file);
    } catch (const Error&) {
      // Then the text's checksum is compared the next time as well.
      return file;
    }
  }
  return file;
}

void CorpusCache::write(const std::string& name, CorpusText& text, TensorFile& file) const {
  file.metadata["format"] = kCacheFormat;
  file.metadata["version"] = kCacheVersion;
  file.metadata["bytes"] = fmt::format("{}", text.bytes());
  file.metadata["modified"] = fmt::format("{}", text.modified());
  file.metadata["crc32c"] = fmt::format("{}", text.checksum());
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
    warn(fmt::format("the words are held in memory, without a cache: {}", error.what()));
    folder_.reset();
    return file;
  }
}

}  // namespace deq::lab

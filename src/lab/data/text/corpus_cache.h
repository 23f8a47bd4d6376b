#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "deq/core/error.h"
#include "deq/lab/io/safetensors.h"
#include "lab/data/text/corpus_text.h"

// One safetensors file for what was made of one text. Metadata: format, version; the text's bytes,
// modified (when) and crc32c; basis, what else it depends on; checksum over all of it.

namespace deq::lab {

/// What has been made of the texts of a corpus. While it lives, other processes wait to open
/// theirs, so that they find what this one has made.
class CorpusCache {
 public:
  using Warn = std::function<void(const std::string&)>;

  /// Without a folder nothing is found and nothing kept.
  CorpusCache(std::optional<std::filesystem::path> folder, Warn warn);
  ~CorpusCache();
  CorpusCache(const CorpusCache&) = delete;
  CorpusCache& operator=(const CorpusCache&) = delete;

  /// Throws an Error where the tensors are not what they should be.
  using Check = std::function<void(const TensorFile&)>;

  /// What was kept under this name, mapped, if it is whole, of this text and basis, and passes the
  /// check. A text that was touched and has not changed is recognised by its checksum.
  std::optional<TensorFile> find(const std::string& name, CorpusText& text,
                                 const std::string& basis, const Check& check);

  /// The same tensors, mapped from what has been written; as they are where writing fails.
  TensorFile keep(const std::string& name, CorpusText& text, const std::string& basis,
                  TensorFile file);

 private:
  std::filesystem::path path(const std::string& name) const;
  void write(const std::string& name, CorpusText& text, TensorFile& file) const;
  void warn(const std::string& sentence) const;
  void warn_of_damage(const Error& error) const;

  std::optional<std::filesystem::path> folder_;
  Warn warn_;
  int lock_ = -1;
};

}  // namespace deq::lab

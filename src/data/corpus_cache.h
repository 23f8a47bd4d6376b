#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "data/corpus_text.h"
#include "deq/io/safetensors.h"

// One safetensors file for what was made of one text. Metadata: format, version; the text's bytes,
// modified (when) and crc32c; basis, what else it depends on; checksum over all of it.

namespace deq {

/// What has been made of the texts of a corpus. While it lives, other processes wait to open
/// theirs: what one has made, they need not.
class CorpusCache {
 public:
  using Warn = std::function<void(const std::string&)>;

  /// Without a folder nothing is found and nothing kept.
  CorpusCache(std::optional<std::filesystem::path> folder, Warn warn);
  ~CorpusCache();
  CorpusCache(const CorpusCache&) = delete;
  CorpusCache& operator=(const CorpusCache&) = delete;

  /// What was kept under this name, mapped, if it is whole and of this text and basis. A text that
  /// was touched and has not changed is recognised by its checksum.
  std::optional<TensorFile> find(const std::string& name, CorpusText& text,
                                 const std::string& basis);

  /// The same tensors, mapped from what has been written; as they are where that cannot be.
  TensorFile keep(const std::string& name, CorpusText& text, const std::string& basis,
                  TensorFile file);

 private:
  std::filesystem::path path(const std::string& name) const;
  void write(const std::string& name, CorpusText& text, TensorFile& file) const;
  void warn(const std::string& sentence) const;

  std::optional<std::filesystem::path> folder_;
  Warn warn_;
  int lock_ = -1;
};

}  // namespace deq

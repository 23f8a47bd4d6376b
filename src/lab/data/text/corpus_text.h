#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "deq/lab/data/text/corpus.h"
#include "lab/data/text/text_index.h"
#include "lab/io/mapped_file.h"

namespace deq::lab {

/// The file of a split, if there is one.
std::optional<std::filesystem::path> find_split(const std::filesystem::path& folder,
                                                CorpusSplit split);

/// "neither train.txt nor wiki.train.tokens"
std::string names_looked_for(CorpusSplit split);

/// The text of a split, as it was when it was opened.
class CorpusText {
 public:
  /// Error when it is empty or unreadable.
  explicit CorpusText(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int64_t bytes() const { return static_cast<int64_t>(file_.bytes().size()); }
  int64_t modified() const { return file_.modified(); }
  /// CRC-32C of the bytes: reads all of them, once.
  uint32_t checksum();

  /// With `threads` = 0, as many as there are cores, fewer for a short text.
  TextIndex read(int64_t threads) const;

 private:
  std::filesystem::path path_;
  io::MappedFile file_;
  std::optional<uint32_t> checksum_;
};

}  // namespace deq::lab

#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "deq/lab/data/text/vocabulary.h"
#include "lab/data/text/word_table.h"
#include "lab/io/mapped_file.h"

namespace deq::lab {

/// The words of a text by numbers of its own. The text is read once: each thread takes a part that
/// ends with a line and numbers the words in it as they come. Neither words() nor encode() depends
/// on the number of threads.
class TextIndex {
 public:
  /// `path` names the file in errors, `threads` ≥ 1.
  TextIndex(const io::MappedFile& file, const std::filesystem::path& path, int64_t threads);

  /// Each word once, in the order of their first appearance; the lines' ends count as <eos>, which
  /// comes first. Views into this index.
  std::vector<WordCount> words() const;

  /// The whole text, int32 [tokens], in the numbers of a vocabulary. Gives its own away, block by
  /// block, so that the text is never held twice.
  torch::Tensor encode(const Vocabulary& vocabulary) &&;

 private:
  /// Numbers as they come, in blocks that go back to the system one by one.
  class Numbers {
   public:
    explicit Numbers(int64_t most);
    void push(int32_t number);
    int64_t size() const { return size_; }
    void give_away(const std::vector<int32_t>& translation, int32_t* out);

   private:
    int64_t block_;
    int64_t size_ = 0;
    std::vector<std::unique_ptr<int32_t[]>> blocks_;
  };

  struct Part {
    explicit Part(int64_t bytes) : numbers(bytes + 1) {}

    WordTable table;
    std::vector<int64_t> counts;
    Numbers numbers;
  };

  static void read(const io::MappedFile& file, std::string_view text, Part& part);

  std::vector<Part> parts_;
};

}  // namespace deq::lab

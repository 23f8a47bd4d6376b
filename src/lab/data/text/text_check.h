#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace deq::lab {

/// What training on a text would stumble over.
struct TextProblem {
  std::string where;  ///< a file or a split
  std::string what;
};

struct TextSplit {
  std::string name;  ///< "train", "valid" or "test"
  std::string file;
  int64_t bytes = 0;
  int64_t lines = 0;
  int64_t words = 0;      ///< without the lines' ends
  int64_t different = 0;  ///< words that differ from each other
  int64_t unknown = 0;    ///< of the words, those that the training text does not have
};

/// All that was found out about the texts in a folder.
struct TextCheck {
  std::filesystem::path folder;
  std::vector<TextSplit> splits;  ///< without those that cannot be read
  int64_t vocabulary = 0;         ///< the model's words, <eos> and <unk> among them
  int64_t rare = 0;               ///< words that the training text has once
  std::vector<int64_t> cutoffs;   ///< as an empty model.cutoffs chooses them
  std::vector<TextProblem> problems;
};

/// Whether a corpus is there: one of its splits, by the name of its file.
bool holds_texts(const std::filesystem::path& folder);

/// Reads every split. Nothing that is wrong with them is thrown.
TextCheck check_texts(const std::filesystem::path& folder);

}  // namespace deq::lab

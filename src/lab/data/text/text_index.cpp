#include "lab/data/text/text_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "deq/core/error.h"
#include "lab/data/batches/in_parallel.h"
#include "lab/data/text/word_reader.h"

namespace deq::lab {
namespace {

// Above the limit from which malloc asks the system for every block and gives each back (32 MiB).
constexpr int64_t kBlockNumbers = int64_t{1} << 24;
// Of text between two times that its memory is let go of.
constexpr size_t kReleaseBytes = size_t{1} << 24;

/// About equal pieces that end with a line; some may be empty.
std::vector<std::string_view> cut_at_lines(std::string_view text, size_t pieces) {
  std::vector<std::string_view> result;
  size_t begin = 0;
  for (size_t i = 1; i <= pieces; ++i) {
    size_t end = text.size();
    if (i < pieces) {
      const auto line_end = text.find('\n', std::max(begin, text.size() / pieces * i));
      if (line_end != std::string_view::npos) end = line_end + 1;
    }
    result.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return result;
}

[[noreturn]] void throw_not_utf8(const std::filesystem::path& path, std::string_view text,
                                 const char* position) {
  const auto before = text.substr(0, static_cast<size_t>(position - text.data()));
  int64_t lines = 0;
  const char* line = text.data();
  read_words(
      before, [](std::string_view) {}, [&] { ++lines; });
  const auto line_end = before.find_last_of("\r\n");
  if (line_end != std::string_view::npos) line += line_end + 1;
  throw Error(fmt::format("{} is not UTF-8 at line {}, byte {} (0x{:02x})", path.string(),
                          lines + 1, position - line + 1, static_cast<uint8_t>(*position)));
}

}  // namespace

// ---- the numbers of a part
// -----------------------------------------------------------------------

TextIndex::Numbers::Numbers(int64_t most) : block_(std::min(most, kBlockNumbers)) {}

void TextIndex::Numbers::push(int32_t number) {
  const auto in_block = size_++ % block_;
  if (in_block == 0) {
    blocks_.push_back(std::make_unique_for_overwrite<int32_t[]>(static_cast<size_t>(block_)));
  }
  blocks_.back()[static_cast<size_t>(in_block)] = number;
}

void TextIndex::Numbers::give_away(const std::vector<int32_t>& translation, int32_t* out) {
  for (auto& block : blocks_) {
    const auto count = std::min(block_, size_);
    for (int64_t i = 0; i < count; ++i) {
      out[i] = translation[static_cast<size_t>(block[static_cast<size_t>(i)])];
    }
    out += count;
    size_ -= count;
    block.reset();
  }
}

// ---- reading
// -------------------------------------------------------------------------------------

void TextIndex::read(const io::MappedFile& file, std::string_view text, Part& part) {
  const auto add = [&part](std::string_view word) {
    const auto number = part.table.add(word);
    if (static_cast<size_t>(number) == part.counts.size()) part.counts.push_back(0);
    ++part.counts[static_cast<size_t>(number)];
    part.numbers.push(number);
  };
  const auto end_line = [&part] {
    ++part.counts[0];
    part.numbers.push(0);
  };
  part.table.add(kEndOfLineWord);
  part.counts.push_back(0);
  for (const auto piece : cut_at_lines(text, 1 + text.size() / kReleaseBytes)) {
    if (read_words(piece, add, end_line)) end_line();
    file.release(piece);
  }
}

TextIndex::TextIndex(const io::MappedFile& file, const std::filesystem::path& path,
                     int64_t threads) {
  const auto texts = cut_at_lines(file.bytes(), static_cast<size_t>(threads));
  for (const auto text : texts) parts_.emplace_back(static_cast<int64_t>(text.size()));
  try {
    in_parallel(threads, [&](int64_t i) {
      read(file, texts[static_cast<size_t>(i)], parts_[static_cast<size_t>(i)]);
    });
  } catch (const Utf8Error& error) {
    throw_not_utf8(path, file.bytes(), error.position());
  }
}

std::vector<WordCount> TextIndex::words() const {
  WordTable table;
  std::vector<WordCount> words;
  for (const auto& part : parts_) {
    for (size_t i = 0; i < part.counts.size(); ++i) {
      const std::string_view word = part.table.words()[i];
      const auto number = static_cast<size_t>(table.add(word));
      if (number == words.size()) words.push_back({word, 0});
      words[number].count += part.counts[i];
    }
  }
  return words;
}

torch::Tensor TextIndex::encode(const Vocabulary& vocabulary) && {
  std::vector<int64_t> begins;
  int64_t tokens = 0;
  for (const auto& part : parts_) {
    begins.push_back(tokens);
    tokens += part.numbers.size();
  }
  auto result = torch::empty({tokens}, torch::kInt32);
  auto* out = result.data_ptr<int32_t>();
  in_parallel(static_cast<int64_t>(parts_.size()), [&](int64_t i) {
    auto& part = parts_[static_cast<size_t>(i)];
    std::vector<int32_t> translation;
    translation.reserve(part.counts.size());
    for (const auto& word : part.table.words()) {
      translation.push_back(static_cast<int32_t>(vocabulary.number(word)));
    }
    part.numbers.give_away(translation, out + begins[static_cast<size_t>(i)]);
  });
  return result;
}

}  // namespace deq::lab

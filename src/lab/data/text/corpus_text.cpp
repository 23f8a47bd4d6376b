#include "lab/data/text/corpus_text.h"

#include <algorithm>
#include <array>
#include <thread>

#include "core/require.h"
#include "lab/io/checksum.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kBytesForAThread = int64_t{1} << 20;
constexpr size_t kSummedAtOnce = size_t{1} << 24;

std::array<std::string, 2> file_names(CorpusSplit split) {
  return {fmt::format("{}.txt", name_of(split)), fmt::format("wiki.{}.tokens", name_of(split))};
}

}  // namespace

std::optional<fs::path> find_split(const fs::path& folder, CorpusSplit split) {
  for (const auto& name : file_names(split)) {
    std::error_code code;
    if (fs::exists(folder / name, code)) return folder / name;
  }
  return std::nullopt;
}

std::string names_looked_for(CorpusSplit split) {
  const auto names = file_names(split);
  return fmt::format("neither {} nor {}", names[0], names[1]);
}

CorpusText::CorpusText(const fs::path& path) : path_(path), file_(path) {
  require(!file_.bytes().empty(), "{} is empty, must be a text", path.string());
}

uint32_t CorpusText::checksum() {
  if (checksum_) return *checksum_;
  uint32_t sum = 0;
  for (auto rest = file_.bytes(); !rest.empty();) {
    const auto piece = rest.substr(0, kSummedAtOnce);
    sum = crc32c(piece, sum);
    file_.release(piece);
    rest.remove_prefix(piece.size());
  }
  checksum_ = sum;
  return sum;
}

TextIndex CorpusText::read(int64_t threads) const {
  if (threads == 0) {
    const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
    threads = std::min(cores, 1 + bytes() / kBytesForAThread);
  }
  return {file_, path_, threads};
}

}  // namespace deq::lab

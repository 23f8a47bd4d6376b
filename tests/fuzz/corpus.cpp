// A text and a file of its cache, which somebody damaged: as it is, or with the checksum that
// belongs to what it holds.

#include "deq/lab/data/text/corpus.h"

#include "fuzz/fuzz.h"
#include "lab/io/checksum.h"

namespace deq::fuzz {
namespace fs = std::filesystem;

const size_t kSpareBytes = size_t{4} << 20;

/// A text of words that never come back is short for what a vocabulary holds of each.
constexpr size_t kBytesPerWord = 320;

namespace {

void open_corpus() {
  const lab::Corpus corpus(folder(), {.threads = 1});
  const auto tokens = corpus.tokens(lab::CorpusSplit::Train);
  promise(tokens.dim() == 1 && tokens.scalar_type() == torch::kInt32, "tokens are no numbers");
  allow(kBytesPerWord * static_cast<size_t>(corpus.vocabulary().size()));
  if (tokens.numel() == 0) return;
  promise(tokens.min().item<int>() >= 0, "a token is below 0");
  promise(tokens.max().item<int>() < corpus.vocabulary().size(), "a token has no word");
}

}  // namespace

void read(std::string_view input) {
  Parts parts(input);
  const auto choice = parts.byte();
  fs::remove_all(folder() / ".deq-cache");
  put("train.txt", parts.text());
  open_corpus();
  const std::string name = choice & 1 ? "train" : "vocabulary";
  const auto cache = ".deq-cache/words/" + name + ".safetensors";
  auto held = tensors_in(parts.rest());
  if (choice & 2 || !held) {
    put(cache, parts.rest());
  } else {
    auto whole = lab::read_safetensors(folder() / cache);
    whole.tensors = held->tensors;
    whole.metadata[lab::kChecksumKey] = lab::content_checksum(whole);
    lab::write_safetensors(folder() / cache, whole);
  }
  open_corpus();
}

}  // namespace deq::fuzz

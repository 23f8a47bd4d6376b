#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "data/corpus_texts.h"
#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "lab/io/checksum.h"

namespace deq::lab {
namespace {

namespace fs = std::filesystem;
using test::kSplits;
using test::put_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CorpusCached : public test::CorpusFolder {
 protected:
  CorpusCached() {
    put("train.txt", draw_text(60, 40));
    put("valid.txt", draw_text(20, 60));
    put("test.txt", draw_text(10, 60));
  }

  fs::path cached(const std::string& name) const {
    return folder_ / ".deq-cache/words" / (name + ".safetensors");
  }
  std::vector<fs::file_time_type> times() const {
    std::vector<fs::file_time_type> result;
    for (const auto* name : {"vocabulary", "train", "valid", "test"}) {
      result.push_back(fs::last_write_time(cached(name)));
    }
    return result;
  }
  /// What the cache gives, by what reading anew gives.
  void expect_true(const Corpus& corpus) const {
    const Corpus read(folder_, {.cache = false});
    EXPECT_EQ(checksum(corpus.vocabulary()), checksum(read.vocabulary()));
    for (const auto split : kSplits) EXPECT_TRUE(corpus.tokens(split).equal(read.tokens(split)));
  }
  Corpus open() { return Corpus(folder_, options()); }
};

TEST_F(CorpusCached, IsMadeOnce) {
  expect_true(open());
  const auto made = times();
  expect_true(open());
  EXPECT_EQ(times(), made);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CorpusCached, TokensOutliveTheCorpusAndTheirFile) {
  const auto expected = Corpus(folder_, {.cache = false}).tokens(CorpusSplit::Train);
  open();
  const auto tokens = open().tokens(CorpusSplit::Train);
  fs::remove_all(folder_ / ".deq-cache");
  EXPECT_TRUE(tokens.equal(expected));
}

TEST_F(CorpusCached, GoesOnAfterAnInterruption) {
  open();
  const auto made = times();
  fs::remove(cached("valid"));
  fs::remove(cached("test"));
  const auto leftover = cached("valid").parent_path() / ".valid.safetensors.tmp.1.0";
  put_file(leftover, "half of");
  expect_true(open());
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_EQ(times()[0], made[0]);
  EXPECT_EQ(times()[1], made[1]);

  // Without the vocabulary: it comes out the same, so that the splits are still good.
  const auto complete = times();
  fs::remove(cached("vocabulary"));
  expect_true(open());
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(times()[i], complete[i]) << i;
  fs::remove(cached("train"));
  expect_true(open());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CorpusCached, DamageIsNoticedAndMended) {
  open();
  for (const auto* name : {"vocabulary", "train", "valid"}) {
    const auto bytes = read_file(cached(name));
    for (size_t byte = 0; byte < bytes.size(); byte += 1 + bytes.size() / 23) {
      auto damaged = bytes;
      damaged[byte] = static_cast<char>(damaged[byte] ^ 4);
      put_file(cached(name), damaged);
      expect_true(open());
      ASSERT_EQ(warnings_.size(), 1U) << name << ' ' << byte;
      EXPECT_THAT(warnings_[0], HasSubstr(cached(name).string()));
      warnings_.clear();
      expect_true(open());
      EXPECT_THAT(warnings_, IsEmpty());
    }
    for (const size_t length : {size_t{0}, size_t{7}, bytes.size() / 2, bytes.size() - 1}) {
      put_file(cached(name), bytes.substr(0, length));
      expect_true(open());
      ASSERT_EQ(warnings_.size(), 1U) << name << ' ' << length;
      EXPECT_THAT(warnings_[0], HasSubstr("the cache is made anew, as it is damaged: "));
      warnings_.clear();
    }
  }
}

TEST_F(CorpusCached, FilesOfAnotherTextAreNotTrusted) {
  open();
  fs::copy_file(cached("valid"), cached("test"), fs::copy_options::overwrite_existing);
  expect_true(open());
  EXPECT_THAT(warnings_, ElementsAre("the cache " + cached("test").string() + " is made anew, as " +
                                     (folder_ / "test.txt").string() + " has changed"));
}

TEST_F(CorpusCached, FollowsTheText) {
  open();
  auto text = read_file(folder_ / "valid.txt");
  // The same length and another time: the checksum decides.
  const auto word = text.find('w');
  text[word] = 'v';
  const auto changed = fs::last_write_time(folder_ / "valid.txt") + std::chrono::seconds(1);
  put("valid.txt", text);
  fs::last_write_time(folder_ / "valid.txt", changed);
  expect_true(open());
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("valid.txt has changed"));

  // Another training text gives another vocabulary, so every split is encoded anew.
  warnings_.clear();
  put("train.txt", draw_text(60, 50) + "new words\n");
  expect_true(open());
  EXPECT_EQ(warnings_.size(), 4U);
  warnings_.clear();
  expect_true(open());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CorpusCached, ATouchedTextIsTheSame) {
  open();
  const auto made = times();
  for (const auto* name : {"train.txt", "test.txt"}) {
    fs::last_write_time(folder_ / name,
                        fs::last_write_time(folder_ / name) + std::chrono::seconds(5));
  }
  expect_true(open());
  // They are written once more with the new time, so that it need not be found out again.
  const auto noted = times();
  EXPECT_NE(noted[0], made[0]);
  EXPECT_NE(noted[1], made[1]);
  EXPECT_EQ(noted[2], made[2]);
  EXPECT_NE(noted[3], made[3]);
  expect_true(open());
  EXPECT_EQ(times(), noted);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CorpusCached, EveryChoiceOfOptionsHasItsOwn) {
  auto rare = options();
  rare.vocabulary = {.max_words = 20, .min_count = 2};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Corpus(folder_, rare).vocabulary().size(), 20);
    EXPECT_GT(open().vocabulary().size(), 20);
  }
  EXPECT_TRUE(fs::exists(folder_ / ".deq-cache/words-min2-max20/train.safetensors"));
  EXPECT_THAT(warnings_, IsEmpty());

  // Moved to where those of other options belong.
  fs::remove_all(folder_ / ".deq-cache/words");
  fs::rename(folder_ / ".deq-cache/words-min2-max20", folder_ / ".deq-cache/words");
  expect_true(open());
  EXPECT_THAT(warnings_[0],
              HasSubstr("\"max_words 20, min_count 2\", not \"max_words 0, min_count 1\""));
}

TEST_F(CorpusCached, WhatCannotBeOfATextIsMadeAnew) {
  using Tensors = std::map<std::string, torch::Tensor>;
  const auto tokens = [](const torch::Tensor& tensor) { return Tensors{{"tokens", tensor}}; };
  const std::vector<std::pair<std::string, Tensors>> cases{
      {"vocabulary", {}},
      {"vocabulary", {{"counts", torch::ones({1}, torch::kInt64)}}},
      {"train", {}},
      {"train", tokens(torch::zeros({3}, torch::kInt64))},
      {"train", tokens(torch::zeros({3, 1}, torch::kInt32))},
      {"test", tokens(torch::full({2}, -1, torch::kInt32))},
      {"test", tokens(torch::full({2}, 1'000'000, torch::kInt32))}};
  for (const auto& [name, tensors] : cases) {
    open();
    auto file = read_safetensors(cached(name));
    file.tensors = tensors;
    file.metadata[kChecksumKey] = content_checksum(file);
    write_safetensors(cached(name), file);
    warnings_.clear();
    expect_true(open());
    ASSERT_EQ(warnings_.size(), 1U) << name;
    EXPECT_THAT(
        warnings_[0],
        HasSubstr("the cache is made anew, as it is damaged: " + cached(name).string() + ": "));
  }
}

TEST_F(CorpusCached, CanBeElsewhere) {
  auto elsewhere = options();
  elsewhere.cache_folder = folder_ / "some/where";
  expect_true(Corpus(folder_, elsewhere));
  EXPECT_TRUE(fs::exists(folder_ / "some/where/words/test.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / ".deq-cache"));
}

TEST_F(CorpusCached, WhereNoneCanBeTheWordsAreInMemory) {
  put(".deq-cache", "a file");
  expect_true(open());
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0],
              HasSubstr("the words are held in memory, without a cache: cannot write"));
}

TEST_F(CorpusCached, SeveralMayOpenItAtOnce) {
  for (int round = 0; round < 3; ++round) {
    fs::remove_all(folder_ / ".deq-cache");
    std::vector<std::optional<Corpus>> corpora(4);
    {
      std::vector<std::jthread> threads;
      for (auto& corpus : corpora) threads.emplace_back([&] { corpus.emplace(folder_); });
    }
    for (const auto& corpus : corpora) expect_true(*corpus);
  }
}

}  // namespace
}  // namespace deq::lab

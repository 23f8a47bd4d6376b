#include "deq/lab/data/text/corpus.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "data/corpus_texts.h"
#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"

namespace deq::lab {
namespace {

namespace fs = std::filesystem;
using test::kSplits;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

std::vector<std::string> words_of(const Corpus& corpus, CorpusSplit split) {
  const auto tokens = corpus.tokens(split);
  std::vector<std::string> words;
  for (int64_t i = 0; i < tokens.numel(); ++i) {
    words.emplace_back(corpus.vocabulary().word(tokens.const_data_ptr<int32_t>()[i]));
  }
  return words;
}

/// Words and <eos> of a text in ASCII.
std::vector<std::string> split_naively(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    for (std::string word; in >> word;) words.push_back(word);
    words.emplace_back("<eos>");
  }
  return words;
}

/// The order that the vocabulary must have.
std::vector<std::string> order_naively(const std::vector<std::string>& words) {
  std::map<std::string, int64_t> counts;
  std::vector<std::string> distinct;
  for (const auto& word : words) {
    if (word != "<eos>" && counts[word]++ == 0) distinct.push_back(word);
  }
  std::stable_sort(distinct.begin(), distinct.end(),
                   [&](const auto& a, const auto& b) { return counts[a] > counts[b]; });
  distinct.insert(distinct.begin(), "<eos>");
  if (counts.count("<unk>") == 0) distinct.emplace_back("<unk>");
  return distinct;
}

using CorpusReading = test::CorpusFolder;

TEST_F(CorpusReading, IsTheNaiveOneForEveryNumberOfThreads) {
  const std::string train = draw_text(400, 300), valid = draw_text(50, 900);
  put("train.txt", train);
  put("valid.txt", valid);
  const auto expected = split_naively(train), order = order_naively(expected);
  for (int64_t threads = 1; threads <= 5; ++threads) {
    const Corpus corpus(folder_, {.cache = false, .threads = threads});
    const auto& vocabulary = corpus.vocabulary();
    ASSERT_EQ(vocabulary.size(), static_cast<int64_t>(order.size()));
    for (int64_t i = 0; i < vocabulary.size(); ++i) {
      ASSERT_EQ(vocabulary.word(i), order[static_cast<size_t>(i)]) << threads;
      ASSERT_EQ(vocabulary.count(i),
                std::count(expected.begin(), expected.end(), order[static_cast<size_t>(i)]));
    }
    EXPECT_EQ(corpus.tokens(CorpusSplit::Train).scalar_type(), torch::kInt32);
    EXPECT_EQ(words_of(corpus, CorpusSplit::Train), expected) << threads;
    auto known = split_naively(valid);
    for (auto& word : known) {
      if (!vocabulary.contains(word)) word = "<unk>";
    }
    EXPECT_GT(std::count(known.begin(), known.end(), "<unk>"), 0);
    EXPECT_EQ(words_of(corpus, CorpusSplit::Valid), known) << threads;
  }
  EXPECT_FALSE(fs::exists(folder_ / ".deq-cache"));
}

TEST_F(CorpusReading, TakesLinesAndBlanksAsTheyCome) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"a b\n", {"a", "b", "<eos>"}},
      {"a b", {"a", "b", "<eos>"}},
      {" a  b \n\n \n c\n", {"a", "b", "<eos>", "<eos>", "<eos>", "c", "<eos>"}},
      {"a\r\nb\rc\r\n\r\n", {"a", "<eos>", "b", "<eos>", "c", "<eos>", "<eos>"}},
      {"\n", {"<eos>"}},
      {"\n\n\n", {"<eos>", "<eos>", "<eos>"}},
      {" ", {"<eos>"}},
      {"a\u00a0b\u3000c\u2003\n", {"a", "b", "c", "<eos>"}},
      {"\u200bé 日本語 \U0001f600\n", {"\u200bé", "日本語", "\U0001f600", "<eos>"}},
      {"a <eos> b\n", {"a", "<eos>", "b", "<eos>"}},
      {"The the\n", {"The", "the", "<eos>"}},
  };
  for (const auto& [text, expected] : cases) {
    put("train.txt", text);
    for (int64_t threads = 1; threads <= 5; ++threads) {
      const Corpus corpus(folder_, {.cache = false, .threads = threads});
      EXPECT_EQ(words_of(corpus, CorpusSplit::Train), expected) << text << threads;
    }
  }
}

TEST_F(CorpusReading, LinesMayBeLong) {
  // Longer than a piece of the text that is let go of at once.
  std::string text;
  while (text.size() < (size_t{20} << 20)) text += "some words without any end ";
  put("train.txt", text + "\nb " + std::string(100'000, 'x'));
  const Corpus corpus(folder_, {.cache = false, .threads = 3});
  const auto tokens = corpus.tokens(CorpusSplit::Train);
  EXPECT_EQ(tokens.numel(), static_cast<int64_t>(text.size() / 27 * 5) + 4);
  EXPECT_EQ(corpus.vocabulary().size(), 9);
  EXPECT_TRUE(tokens.slice(0, 0, 5).equal(torch::tensor({1, 2, 3, 4, 5}, torch::kInt32)));
  EXPECT_TRUE(tokens.slice(0, -4).equal(torch::tensor({0, 6, 7, 0}, torch::kInt32)));
}

TEST_F(CorpusReading, TheVocabularyCanBeLimited) {
  put("train.txt", "a a a b b c\n");
  const Corpus corpus(folder_, {.vocabulary = {.min_count = 2}, .cache = false});
  EXPECT_THAT(words_of(corpus, CorpusSplit::Train),
              ElementsAre("a", "a", "a", "b", "b", "<unk>", "<eos>"));
  EXPECT_EQ(corpus.vocabulary().size(), 4);
}

TEST_F(CorpusReading, WikiTextsOwnNamesAreKnown) {
  put("wiki.train.tokens", " = Title = \n");
  put("wiki.test.tokens", "Title\n");
  const Corpus corpus(folder_, {.cache = false});
  EXPECT_THAT(words_of(corpus, CorpusSplit::Train), ElementsAre("=", "Title", "=", "<eos>"));
  EXPECT_THAT(words_of(corpus, CorpusSplit::Test), ElementsAre("Title", "<eos>"));
  EXPECT_FALSE(corpus.has(CorpusSplit::Valid));
  EXPECT_THAT([&] { corpus.tokens(CorpusSplit::Valid); },
              ThrowsMessage<UsageError>(StrEq("the corpus " + folder_.string() +
                                              " has no valid split: there is neither "
                                              "valid.txt nor wiki.valid.tokens")));
}

TEST_F(CorpusReading, WhatCannotBeReadIsNamed) {
  const auto open = [&] { Corpus(folder_, {.cache = false, .threads = 3}); };
  const auto train = (folder_ / "train.txt").string();
  EXPECT_THAT(open, ThrowsMessage<UsageError>(StrEq("the corpus " + folder_.string() +
                                                    " has no train split: there is "
                                                    "neither train.txt nor "
                                                    "wiki.train.tokens")));
  put("train.txt", "");
  EXPECT_THAT(open, ThrowsMessage<Error>(StrEq(train + " is empty, must be a text")));
  fs::remove(train);
  fs::create_directory(train);
  EXPECT_THAT(open,
              ThrowsMessage<Error>(StrEq("cannot read " + train + ": it is not a regular file")));
  fs::remove(train);
  put("train.txt", "a b\n");
  put("valid.txt", "");
  EXPECT_THAT(open, ThrowsMessage<Error>(HasSubstr("valid.txt is empty")));
  EXPECT_THAT([&] { Corpus(folder_, {.threads = -1}); },
              ThrowsMessage<Error>(StrEq("corpus: threads = -1, must be ≥ 0")));
}

TEST_F(CorpusReading, AnotherVocabularyThanExpectedIsRefused) {
  put("train.txt", "a b\n");
  EXPECT_EQ(Corpus(folder_, {.expected_words = 4, .cache = false}).vocabulary().size(), 4);
  EXPECT_THAT([&] { Corpus(folder_, {.expected_words = 5, .cache = false}); },
              ThrowsMessage<UsageError>(
                  StrEq("the vocabulary of " + folder_.string() + " has 4 words, must have 5")));
}

TEST_F(CorpusReading, TextThatIsNotUtf8IsNamedWithItsFirstByte) {
  const char* const bad[] = {"\xff",
                             "\x80",
                             "\xc3",
                             "\xc3(",
                             "\xc0\xaf",
                             "\xe2\x82",
                             "\xe0\x80\xaf",
                             "\xed\xa0\x80",
                             "\xf4\x90\x80\x80",
                             "\xf0\x80\x80\x80",
                             "\xf5\x80\x80\x80"};
  for (const auto* bytes : bad) {
    put("train.txt", fmt::format("a b\nsecond\r\n\né cd{} e\nf \xff\n{}", bytes, bytes));
    const auto message = fmt::format("{} is not UTF-8 at line 4, byte 6 (0x{:02x})",
                                     (folder_ / "train.txt").string(), uint8_t(bytes[0]));
    for (int64_t threads = 1; threads <= 5; ++threads) {
      EXPECT_THAT([&] { Corpus(folder_, {.cache = false, .threads = threads}); },
                  ThrowsMessage<Error>(StrEq(message)));
    }
  }
  for (const auto* good :
       {"\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"}) {
    put("train.txt", fmt::format("{}\n", good));
    EXPECT_EQ(words_of(Corpus(folder_, {.cache = false}), CorpusSplit::Train)[0], good);
  }
}

// Texts in words as Python reads and counts them.
TEST(CorpusFromPython, IsTheSame) {
  const test::TemporaryFolder samples;
  const auto command = fmt::format("python3 {}/tests/data/corpus_samples.py {}", DEQ_SOURCE_DIR,
                                   samples.path().string());
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  int64_t corpora = 0;
  for (const auto& entry : fs::directory_iterator(samples.path())) {
    for (int64_t threads = 1; threads <= 4; ++threads) {
      const Corpus corpus(entry.path(), {.cache = false, .threads = threads});
      std::ostringstream found;
      for (int64_t i = 0; i < corpus.vocabulary().size(); ++i) {
        found << corpus.vocabulary().word(i) << ' ' << corpus.vocabulary().count(i) << '\n';
      }
      for (const auto split : kSplits) {
        const auto tokens = corpus.tokens(split);
        for (int64_t i = 0; i < tokens.numel(); ++i) {
          found << tokens.const_data_ptr<int32_t>()[i] << ' ';
        }
        found << '\n';
      }
      EXPECT_TRUE(found.str() == read_file(entry.path() / "expected")) << entry.path();
    }
    ++corpora;
  }
  EXPECT_GT(corpora, 0);
}

}  // namespace
}  // namespace deq::lab

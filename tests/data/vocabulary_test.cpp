#include "deq/lab/data/text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "deq/core/error.h"
#include "deq/lab/data/text/vocabulary_cutoffs.h"
#include "deq/lab/io/atomic_file.h"
#include "io/temporary_folder.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

std::vector<std::string> words_in(const Vocabulary& vocabulary) {
  std::vector<std::string> words;
  for (int64_t i = 0; i < vocabulary.size(); ++i) words.emplace_back(vocabulary.word(i));
  return words;
}

std::vector<int64_t> counts_of(const Vocabulary& vocabulary) {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < vocabulary.size(); ++i) counts.push_back(vocabulary.count(i));
  return counts;
}

TEST(Vocabulary, OrdersByCountThenByFirstAppearance) {
  // Counter("b a c a b d".split() + …).most_common() in Python.
  const auto vocabulary = build_vocabulary(
      std::vector<WordCount>{{"b", 2}, {"<eos>", 3}, {"a", 2}, {"c", 1}, {"e", 5}, {"d", 1}});
  EXPECT_THAT(words_in(vocabulary), ElementsAre("<eos>", "e", "b", "a", "c", "d", "<unk>"));
  EXPECT_THAT(counts_of(vocabulary), ElementsAre(3, 5, 2, 2, 1, 1, 0));
  EXPECT_EQ(vocabulary.end_of_line(), 0);
  EXPECT_EQ(vocabulary.unknown(), 6);
}

TEST(Vocabulary, AnUnknownWordOfTheTextIsAWordAsOthers) {
  const auto vocabulary =
      build_vocabulary(std::vector<WordCount>{{"b", 2}, {"<unk>", 2}, {"a", 2}, {"c", 3}});
  EXPECT_THAT(words_in(vocabulary), ElementsAre("<eos>", "c", "b", "<unk>", "a"));
  EXPECT_THAT(counts_of(vocabulary), ElementsAre(0, 3, 2, 2, 2));
}

TEST(Vocabulary, RareWordsBecomeUnknown) {
  const std::vector<WordCount> counted{{"a", 4}, {"b", 1}, {"c", 2}, {"d", 1}, {"e", 2}};
  // b and d are <unk>, which then appears twice, first in the place of b.
  const auto frequent = build_vocabulary(counted, {.min_count = 2});
  EXPECT_THAT(words_in(frequent), ElementsAre("<eos>", "a", "<unk>", "c", "e"));
  EXPECT_THAT(counts_of(frequent), ElementsAre(0, 4, 2, 2, 2));
  EXPECT_EQ(frequent.number("d"), frequent.unknown());
  EXPECT_FALSE(frequent.contains("d"));

  const auto few = build_vocabulary(counted, {.max_words = 4});
  EXPECT_THAT(words_in(few), ElementsAre("<eos>", "a", "<unk>", "c"));
  EXPECT_THAT(counts_of(few), ElementsAre(0, 4, 4, 2));
  EXPECT_THAT(words_in(build_vocabulary(counted, {.max_words = 2})), ElementsAre("<eos>", "<unk>"));
  EXPECT_EQ(build_vocabulary(counted, {.max_words = 7}).size(), 7);
  EXPECT_EQ(build_vocabulary(counted, {.max_words = 100}).size(), 7);
}

TEST(Vocabulary, OfNoWordsHasTheTwoSpecialOnes) {
  EXPECT_THAT(words_in(build_vocabulary({})), ElementsAre("<eos>", "<unk>"));
}

class VocabularyOfManyWords : public test::Seeded {
 protected:
  std::vector<std::string> names_ = draw_names();
  Vocabulary vocabulary_ = build();

 private:
  // Of all lengths from 1 to 40 bytes and more than any table holds at first.
  static std::vector<std::string> draw_names() {
    std::mt19937_64 random(test::seed());
    std::set<std::string> distinct;
    while (distinct.size() < 20'000) {
      std::string name(1 + random() % 40, ' ');
      for (auto& letter : name) letter = static_cast<char>('a' + random() % 4);
      distinct.insert(name);
    }
    return {distinct.begin(), distinct.end()};
  }
  Vocabulary build() const {
    std::vector<WordCount> counted;
    for (const auto& name : names_) counted.push_back({name, 7});
    return build_vocabulary(counted);
  }
};

TEST_F(VocabularyOfManyWords, FindsEveryWordAndNoOther) {
  ASSERT_EQ(vocabulary_.size(), 20'002);
  const std::set<std::string> known(names_.begin(), names_.end());
  for (size_t i = 0; i < names_.size(); ++i) {
    ASSERT_EQ(vocabulary_.number(names_[i]), static_cast<int64_t>(i) + 1) << names_[i];
    ASSERT_EQ(vocabulary_.word(static_cast<int64_t>(i) + 1), names_[i]);
    const auto other = names_[i] + 'a';
    ASSERT_EQ(vocabulary_.contains(other), known.count(other) == 1) << other;
  }
  EXPECT_FALSE(vocabulary_.contains(""));
}

TEST_F(VocabularyOfManyWords, ComesBackFromItsFile) {
  const test::TemporaryFolder folder;
  const auto path = folder / "vocabulary.safetensors";
  write_vocabulary(path, vocabulary_);
  const auto read = read_vocabulary(path);
  EXPECT_EQ(words_in(read), words_in(vocabulary_));
  EXPECT_EQ(counts_of(read), counts_of(vocabulary_));
  EXPECT_EQ(checksum(read), checksum(vocabulary_));

  auto bytes = read_file(path);
  bytes.back() = bytes.back() == 'a' ? 'b' : 'a';
  write_file_atomically(path, bytes);
  EXPECT_THAT([&] { read_vocabulary(path); },
              ThrowsMessage<Error>(
                  StrEq(path.string() + " is no usable vocabulary: its checksum does not match")));
}

TEST(Vocabulary, ChecksumSeesOrderAndCounts) {
  const std::vector<WordCount> words{{"<eos>", 1}, {"<unk>", 2}, {"a", 2}};
  const std::vector<WordCount> other_order{{"<eos>", 1}, {"a", 2}, {"<unk>", 2}};
  const std::vector<WordCount> other_count{{"<eos>", 1}, {"<unk>", 2}, {"a", 3}};
  const auto sum = checksum(Vocabulary(words));
  EXPECT_EQ(sum, checksum(Vocabulary(words)));
  EXPECT_NE(sum, checksum(Vocabulary(other_order)));
  EXPECT_NE(sum, checksum(Vocabulary(other_count)));
}

TEST(Vocabulary, EncodesAndDecodesText) {
  const Vocabulary vocabulary(
      std::vector<WordCount>{{"<eos>", 1}, {"the", 1}, {"<unk>", 1}, {"été", 1}});
  EXPECT_THAT(vocabulary.encode("the  cat\n\n été\tthe"), ElementsAre(1, 2, 0, 0, 3, 1));
  EXPECT_THAT(vocabulary.encode("the\r\nthe\n"), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(vocabulary.encode("the <eos> <unk>"), ElementsAre(1, 0, 2));
  EXPECT_THAT(vocabulary.encode(" "), IsEmpty());
  const std::vector<int64_t> numbers{1, 2, 0, 0, 3, 1};
  EXPECT_EQ(vocabulary.decode(numbers), "the <unk>\n\nété the");
  EXPECT_EQ(vocabulary.encode(vocabulary.decode(numbers)), numbers);
  EXPECT_EQ(vocabulary.decode({}), "");
}

TEST(Vocabulary, NamesWhatIsWrong) {
  const Vocabulary vocabulary(std::vector<WordCount>{{"<eos>", 1}, {"<unk>", 1}});
  EXPECT_THAT(
      [&] {
        vocabulary.decode(std::vector<int64_t>{1, 2});
      },
      ThrowsMessage<Error>(StrEq("word 2 is not in the vocabulary, must be ≥ 0 and < 2")));
  EXPECT_THROW(vocabulary.count(-1), Error);
  EXPECT_THAT([&] { vocabulary.encode("ab \xc3("); },
              ThrowsMessage<Error>(StrEq("the text is not UTF-8 at its byte 4")));
  const auto make = [](const std::vector<WordCount>& words) { return Vocabulary(words); };
  EXPECT_THAT(
      [&] {
        make({{"<unk>", 1}, {"<eos>", 1}});
      },
      ThrowsMessage<Error>(StrEq("vocabulary: its first word must be <eos>")));
  EXPECT_THAT(
      [&] {
        make({{"<eos>", 1}});
      },
      ThrowsMessage<Error>(StrEq("vocabulary: <unk> is missing")));
  EXPECT_THAT(
      [&] {
        make({{"<eos>", 1}, {"<unk>", 1}, {"a", 1}, {"a", 2}});
      },
      ThrowsMessage<Error>(StrEq("vocabulary: \"a\" is there twice")));
  for (const auto* text : {"", " a", "a b", "a\n", "a\u3000"}) {
    EXPECT_THAT(
        [&] {
          make({{"<eos>", 1}, {"<unk>", 1}, {text, 1}});
        },
        ThrowsMessage<Error>(StartsWith("vocabulary: \"")))
        << text;
  }
  EXPECT_THAT(
      [] { build_vocabulary({}, {.max_words = 1}); },
      ThrowsMessage<Error>(StrEq("vocabulary: max_words = 1, must be ≥ 2, or 0 for no limit")));
  EXPECT_THAT([] { build_vocabulary({}, {.min_count = 0}); },
              ThrowsMessage<Error>(StrEq("vocabulary: min_count = 0, must be ≥ 1")));
}

TEST(Cutoffs, AreTheAuthorsForWikiText) {
  EXPECT_THAT(choose_cutoffs(267'735), ElementsAre(20'000, 40'000, 200'000));
}

TEST(Cutoffs, ShrinkWithTheVocabulary) {
  EXPECT_THAT(choose_cutoffs(53'945), ElementsAre(4000, 8100, 40'000));
  EXPECT_THAT(choose_cutoffs(10'000), ElementsAre(1500, 7500));
  EXPECT_THAT(choose_cutoffs(2000), IsEmpty());
  EXPECT_THAT(choose_cutoffs(10'000, {.shares = {}}), IsEmpty());
  EXPECT_THAT(choose_cutoffs(100, {.smallest_cluster = 10}), ElementsAre(15, 75));
}

TEST(Cutoffs, LeaveNoClusterTooSmall) {
  for (int64_t words = 1; words < 3'000'000; words += 1 + words / 7) {
    for (const int64_t smallest : {1, 17, 1000}) {
      auto bounds = choose_cutoffs(words, {.smallest_cluster = smallest});
      bounds.push_back(words);
      int64_t previous = 0;
      for (const auto bound : bounds) {
        if (bounds.size() > 1) {
          EXPECT_GE(bound - previous, smallest) << words;
        }
        previous = bound;
      }
    }
  }
}

TEST(Cutoffs, OptionsAreChecked) {
  EXPECT_THAT(
      [] {
        choose_cutoffs(10, {.shares = {0.5, 0.5}});
      },
      ThrowsMessage<Error>(
          StrEq("cutoffs: shares has 0.5 after 0.5, must be increasing, > 0 and < 1")));
  EXPECT_THROW(choose_cutoffs(10, {.shares = {1.0}}), Error);
  EXPECT_THROW(choose_cutoffs(0), Error);
  EXPECT_THAT([] { choose_cutoffs(10, {.smallest_cluster = 0}); },
              ThrowsMessage<Error>(StrEq("cutoffs: smallest_cluster = 0, must be ≥ 1")));
}

}  // namespace
}  // namespace deq::lab

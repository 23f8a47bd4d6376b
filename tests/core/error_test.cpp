#include "deq/core/error.h"

#include <gtest/gtest.h>

#include "deq/lab/data/text/vocabulary.h"
#include "io/temporary_folder.h"

namespace deq {
namespace {

TEST(Error, IsOneLineWhateverItQuotes) {
  EXPECT_STREQ(Error("a\nb\n").what(), "a b ");
  const std::vector<lab::WordCount> words{{"<eos>", 1}, {"two\nlines", 1}, {"<unk>", 1}};
  EXPECT_EQ(test::message_of<Error>([&] { lab::Vocabulary vocabulary(words); }),
            "vocabulary: \"two lines\" is not a word");
}

}  // namespace
}  // namespace deq
